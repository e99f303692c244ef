import { defaultScopes } from '../../auth/policy/actions.ts';
import { OwnIssuer } from '../../auth/tokens/own-issuer.ts';
import { dataFolderAt } from '../../config/data-folder.ts';
import { optional, required, withDefault } from '../../config/options.ts';
import { type Config, settings } from '../../config/settings.ts';
import { boolean, durationMs, listOf, text } from '../../config/value-types.ts';
import { dayMs } from '../../kernel/clock.ts';
import { didYouMean } from '../../kernel/nearest-word.ts';
import { type CliContext, CliError, type Command, write } from '../command.ts';
import { credentialSettings, readCommandLine } from '../command-line.ts';
import { type RunningService, requireOwnIssuer, runningService } from '../remote/running-service.ts';

/** Whom a credential stands for and what it allows. */
export const accessOptions = {
  subject: required(text, { flag: 'subject', doc: 'Whom it stands for.' }),
  scope: required(text, {
    flag: 'scope',
    doc: 'Scopes, separated by spaces, such as "lancegate:read lancegate:write".',
  }),
  groups: optional(listOf(text), { flag: 'group', doc: 'Groups that a policy can name.' }),
  allowUnknown: withDefault(boolean, {
    flag: 'allow-unknown',
    default: 'false',
    doc: 'Make it also for a data folder in which no service ever ran, and with scopes that no policy knows.',
  }),
};

export const splitScopes = (scope: string): readonly string[] => scope.split(/\s+/).filter((word) => word !== '');

const options = {
  ...accessOptions,
  expires: withDefault(durationMs(1_000, 3_660 * dayMs), {
    flag: 'expires',
    default: '12h',
    doc: 'How long the token is valid; it cannot be taken back before.',
  }),
};

/** Of commands that make a credential. */
export const makingSettings = [...credentialSettings, 'policyFile'] as const;

export const tokenCommand: Command = {
  name: 'token',
  summary: 'Prints an access token of the own issuer; works while the service runs.',
  options: [...Object.values(options), ...makingSettings.map((name) => settings[name])],

  async run(args, context) {
    const { options: given, reading } = readCommandLine({ options, settingNames: makingSettings }, args, context);
    const config = reading.values;
    const scopes = splitScopes(given.scope);
    const service = runningService(dataFolderAt(config.dataFolder), context);
    requireOwnIssuer(config, service);
    if (!given.allowUnknown) await requireUse(scopes, config, service, context);
    await using credentials = await context.openCredentials(config);
    const issuer = await OwnIssuer.open(credentials.issuerKeys, context.clock);
    const token = await issuer.mint({
      subject: given.subject,
      scopes,
      groups: given.groups ?? [],
      expiresAfterMs: given.expires,
    });
    await write(context.stdout, `${token}\n`);
  },
};

/** A credential that no service accepts, or that allows nothing, is a slip. */
export async function requireUse(
  scopes: readonly string[],
  config: Config,
  service: RunningService | undefined,
  context: Pick<CliContext, 'fileExists' | 'readFile'>,
): Promise<void> {
  requireServed(config, context);
  await requireKnownScopes(scopes, config, service, context);
}

/** A mistyped folder would get credentials of its own, which no service accepts. Nothing is made in it before this. */
function requireServed({ catalogUrl, dataFolder }: Config, { fileExists }: Pick<CliContext, 'fileExists'>): void {
  if (catalogUrl !== undefined || fileExists(dataFolderAt(dataFolder).catalogFile)) return;
  throw new CliError(
    `no service ever ran in ${dataFolder}: there is no catalog that this user can see. --data names the data folder of a ` +
      'service, --catalog the database of replicas; token and key create take --allow-unknown for one that starts later',
  );
}

/** As `requireServed`, where there may be credentials that were made for a service that starts later. */
export function requireCredentials(config: Config, context: Pick<CliContext, 'fileExists'>): void {
  const { apiKeysFile, issuerKeyFile } = dataFolderAt(config.dataFolder);
  if (![apiKeysFile, issuerKeyFile].some(context.fileExists)) requireServed(config, context);
}

/** Policies can ask for thousands of scopes. */
const mostShown = 20;

/**
 * `CliError` for a scope that no policy knows, with which a client is refused everywhere. A running service knows its policies;
 * without one, the settings of this command say which the next one will have.
 */
async function requireKnownScopes(
  scopes: readonly string[],
  config: Config,
  service: RunningService | undefined,
  context: Pick<CliContext, 'readFile'>,
): Promise<void> {
  const { policyFile } = service ?? config;
  const known = policyFile === undefined ? defaultScopes : await scopesOfFile(policyFile, context);
  const unknown = known === undefined ? [] : scopes.filter((scope) => !known.has(scope));
  if (known === undefined || unknown.length === 0) return;
  const lines = unknown.map((scope) => {
    const meant = didYouMean(scope, known, (found) => JSON.stringify(found));
    return `no policy knows the scope ${JSON.stringify(scope)}${meant}`;
  });
  const which = policyFile === undefined ? 'the default policies' : `the policies of ${policyFile}`;
  const other = service === undefined ? '--policy-file names other policies, ' : '';
  const what = `${which} know ${show([...known])}; ${other}--allow-unknown takes any scope`;
  throw new CliError([...lines, what].join('\n'));
}

async function scopesOfFile(
  path: string,
  { readFile }: Pick<CliContext, 'readFile'>,
): Promise<ReadonlySet<string> | undefined> {
  try {
    // Loaded for this alone: it is larger than the rest of the command.
    const { knownScopes } = await import('../../auth/policy/known-scopes.ts');
    return knownScopes(readFile(path).toString('utf8'));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(
      `the scopes cannot be compared with the policies of ${path}, which --allow-unknown leaves out: ${why}`,
    );
  }
}

function show(scopes: readonly string[]): string {
  const shown = scopes.slice(0, mostShown).join(', ');
  return scopes.length > mostShown ? `${shown} and ${scopes.length - mostShown} more` : shown;
}
