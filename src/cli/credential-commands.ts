/** `token`, `key` and `issuer-key` make, list and end credentials. They work while the service runs. */
import { defaultScopes } from '../auth/policy/actions.ts';
import { ApiKeyStore } from '../auth/tokens/api-keys.ts';
import { type AcceptedKey, type IssuerKeys, openIssuerKeys, rotateIssuerKey } from '../auth/tokens/issuer-key.ts';
import { OwnIssuer } from '../auth/tokens/own-issuer.ts';
import type { ApiKey, Credentials } from '../catalog/credentials.ts';
import { dataFolderAt } from '../config/data-folder.ts';
import { type OptionTable, optional, required, withDefault } from '../config/options.ts';
import type { Config } from '../config/settings.ts';
import { boolean, durationMs, listOf, text } from '../config/value-types.ts';
import { dayMs } from '../kernel/clock.ts';
import { didYouMean } from '../kernel/nearest-word.ts';
import { type CliContext, CliError, type Command, type CommandGroup, write } from './command.ts';
import { type CommandLine, commandOf, credentialSettings } from './command-line.ts';
import { type RunningService, requireOwnIssuer, runningService } from './remote/running-service.ts';

/** Commands that make a credential have these. */
const accessOptions = {
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
const makingSettings = [...credentialSettings, 'policyFile'] as const;

export const tokenCommand = commandOf(
  {
    name: 'token',
    summary: 'Prints an access token of the own issuer; works while the service runs.',
    options: {
      ...accessOptions,
      expires: withDefault(durationMs(1_000, 3_660 * dayMs), {
        flag: 'expires',
        default: '12h',
        doc: 'How long the token is valid; it cannot be taken back before.',
      }),
    },
    settings: makingSettings,
  },
  async ({ options: given, reading: { values: config } }, context) => {
    const scopes = splitScopes(given.scope);
    const service = runningService(dataFolderAt(config.dataFolder), context);
    requireOwnIssuer(config, service);
    if (!given.allowUnknown) await requireUse(scopes, config, service, context);
    await using credentials = await context.openCredentials(config);
    const issuer = await OwnIssuer.open(credentials.issuerKeys, context.clock);
    const { subject, groups = [], expires: expiresAfterMs } = given;
    await write(context.stdout, `${await issuer.mint({ subject, scopes, groups, expiresAfterMs })}\n`);
  },
);

const createKeyCommand = commandOf(
  {
    name: 'create',
    summary: 'Prints a new API key, this once.',
    options: {
      ...accessOptions,
      expires: optional(durationMs(1_000, 36_600 * dayMs), {
        flag: 'expires',
        doc: 'How long the key is valid. Without it, until it is revoked.',
      }),
    },
    settings: makingSettings,
  },
  async ({ options: given, reading: { values: config } }, context) => {
    const { subject, groups = [], expires } = given;
    const scopes = splitScopes(given.scope);
    const service = runningService(dataFolderAt(config.dataFolder), context);
    if (!given.allowUnknown) await requireUse(scopes, config, service, context);
    const expiresAtMs = expires === undefined ? undefined : context.clock.nowMs() + expires;
    await using credentials = await context.openCredentials(config);
    const store = new ApiKeyStore(credentials.apiKeys, context.clock);
    const { key, record } = await store.create({ subject, scopes, groups, expiresAtMs });
    await write(context.stderr, `API key ${record.id}; this is the only time its secret is shown:\n`);
    await write(context.stdout, `${key}\n`);
  },
);

/** The command is about credentials that are there. */
const credentialCommand = <Options extends OptionTable, const Names extends readonly string[] = readonly []>(
  table: Pick<Command, 'name' | 'summary'> & { readonly options: Options; readonly positionals?: Names },
  run: (credentials: Credentials, context: CliContext, line: CommandLine<Options, Names>) => Promise<void>,
): Command =>
  commandOf({ ...table, settings: credentialSettings }, async (line, context) => {
    requireCredentials(line.reading.values, context);
    await using credentials = await context.openCredentials(line.reading.values);
    await run(credentials, context, line);
  });

export const keyCommands: CommandGroup = {
  name: 'key',
  alias: 'api-key',
  summary: 'Makes, lists and revokes API keys. Takes effect within a second, also while the service runs.',
  commands: [
    createKeyCommand,
    credentialCommand(
      {
        name: 'list',
        summary: 'Prints a line for each key: its id, state, subject, scopes, groups, and when it was made.',
        options: {},
      },
      async ({ apiKeys }, { clock, stdout }) => {
        const lines = (await apiKeys.list()).map((key) => `${describeKey(key, clock.nowMs())}\n`);
        await write(stdout, lines.join(''));
      },
    ),
    credentialCommand(
      {
        name: 'revoke',
        positionals: ['ID'],
        summary: 'Ends a key at once. `lancegate key list` shows the ids.',
        options: {},
      },
      async ({ apiKeys }, { clock, stdout }, { positionals: [id] }) => {
        if (!(await new ApiKeyStore(apiKeys, clock).revoke(id)))
          throw new CliError(`there is no API key ${JSON.stringify(id)}; lancegate key list shows the ids`);
        await write(stdout, `revoked ${id}\n`);
      },
    ),
  ],
};

export const issuerKeyCommands: CommandGroup = {
  name: 'issuer-key',
  summary: 'Replaces the key that signs tokens of the own issuer, or lists the accepted keys.',
  commands: [
    credentialCommand(
      {
        name: 'rotate',
        summary: 'Makes a new key, with which all new tokens are signed. The running service follows.',
        options: {
          acceptOldForMs: withDefault(durationMs(0, 3_660 * dayMs), {
            flag: 'accept-old-for',
            default: '12h',
            doc: 'How long the service accepts tokens of the old key. `0s` ends all tokens of all old keys; use it if others may have the key.',
          }),
        },
      },
      async ({ issuerKeys }, context, { options: { acceptOldForMs } }) =>
        showIssuerKeys(await rotateIssuerKey(issuerKeys, { clock: context.clock, acceptOldForMs }), context),
    ),
    credentialCommand(
      {
        name: 'list',
        summary: 'Prints a line for each accepted key: the `kid` of its tokens, and its state.',
        options: {},
      },
      async ({ issuerKeys }, context) => showIssuerKeys(await openIssuerKeys(issuerKeys), context),
    ),
  ],
};

const splitScopes = (scope: string): readonly string[] => scope.split(/\s+/).filter((word) => word !== '');

/** Tabs separate id, state, subject, scopes, groups, and when it was made. */
function describeKey(key: ApiKey, nowMs: number): string {
  const made = new Date(key.createdAtMs).toISOString();
  return [key.id, stateOfKey(key, nowMs), key.subject, key.scopes.join(' '), key.groups.join(','), made].join('\t');
}

function stateOfKey({ revokedAtMs, expiresAtMs }: ApiKey, nowMs: number): string {
  if (revokedAtMs !== undefined) return `revoked ${new Date(revokedAtMs).toISOString()}`;
  if (expiresAtMs === undefined) return 'valid';
  return `${expiresAtMs <= nowMs ? 'expired' : 'valid until'} ${new Date(expiresAtMs).toISOString()}`;
}

/** Each key has a line, with its id, which is the `kid` of its tokens, and its state behind a tab. */
async function showIssuerKeys({ accepted }: IssuerKeys, { stdout, clock }: CliContext): Promise<void> {
  const nowMs = clock.nowMs();
  await write(stdout, accepted.map((key) => `${key.id}\t${stateOfIssuerKey(key, nowMs)}\n`).join(''));
}

function stateOfIssuerKey({ acceptedUntilMs }: AcceptedKey, nowMs: number): string {
  if (acceptedUntilMs === Number.POSITIVE_INFINITY) return 'signs';
  return `${acceptedUntilMs > nowMs ? 'accepted until' : 'ended'} ${new Date(acceptedUntilMs).toISOString()}`;
}

/** A credential that no service accepts, or that allows nothing, is a slip. */
async function requireUse(
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

/** Requires what `requireServed` does, unless there are credentials that were made for a service that starts later. */
function requireCredentials(config: Config, context: Pick<CliContext, 'fileExists'>): void {
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
    // It is loaded for this alone, since it is larger than the rest of the command.
    const { knownScopes } = await import('../auth/policy/known-scopes.ts');
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
