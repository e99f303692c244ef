import { ApiKeyStore } from '../../auth/tokens/api-keys.ts';
import type { ApiKey } from '../../catalog/credentials.ts';
import { dataFolderAt } from '../../config/data-folder.ts';
import { optional } from '../../config/options.ts';
import { settings } from '../../config/settings.ts';
import { durationMs } from '../../config/value-types.ts';
import { dayMs } from '../../kernel/clock.ts';
import { type CliContext, CliError, type CommandGroup, write } from '../command.ts';
import { credentialSettings, readCommandLine } from '../command-line.ts';
import { runningService } from '../remote/running-service.ts';
import { accessOptions, makingSettings, requireCredentials, requireUse, splitScopes } from './token.ts';

const createOptions = {
  ...accessOptions,
  expires: optional(durationMs(1_000, 36_600 * dayMs), {
    flag: 'expires',
    doc: 'How long the key is valid. Without it, until it is revoked.',
  }),
};

const settingNames = credentialSettings;

const credentialOptions = settingNames.map((name) => settings[name]);

export const keyCommands: CommandGroup = {
  name: 'key',
  alias: 'api-key',
  summary: 'Makes, lists and revokes API keys. Takes effect within a second, also while the service runs.',
  commands: [
    {
      name: 'create',
      summary: 'Prints a new API key, this once.',
      options: [...Object.values(createOptions), ...makingSettings.map((name) => settings[name])],
      run: createKey,
    },
    {
      name: 'list',
      summary: 'Prints a line for each key: its id, state, subject, scopes, groups, and when it was made.',
      options: credentialOptions,
      run: listKeys,
    },
    {
      name: 'revoke',
      positionals: 'ID',
      summary: 'Ends a key at once. `lancegate key list` shows the ids.',
      options: credentialOptions,
      run: revokeKey,
    },
  ],
};

async function createKey(args: readonly string[], context: CliContext): Promise<void> {
  const syntax = { options: createOptions, settingNames: makingSettings };
  const { options: given, reading } = readCommandLine(syntax, args, context);
  const config = reading.values;
  const { subject, groups, expires } = given;
  const scopes = splitScopes(given.scope);
  const service = runningService(dataFolderAt(config.dataFolder), context);
  if (!given.allowUnknown) await requireUse(scopes, config, service, context);
  const expiresAtMs = expires === undefined ? undefined : context.clock.nowMs() + expires;
  await using credentials = await context.openCredentials(config);
  const store = new ApiKeyStore(credentials.apiKeys, context.clock);
  const request = { subject, scopes, groups: groups ?? [], expiresAtMs };
  const { key, record } = await store.create(request);
  await write(context.stderr, `API key ${record.id}; this is the only time its secret is shown:\n`);
  await write(context.stdout, `${key}\n`);
}

async function listKeys(args: readonly string[], context: CliContext): Promise<void> {
  const { reading } = readCommandLine({ options: {}, settingNames }, args, context);
  requireCredentials(reading.values, context);
  await using credentials = await context.openCredentials(reading.values);
  const keys = await credentials.apiKeys.list();
  const lines = keys.map((key) => `${describeKey(key, context.clock.nowMs())}\n`);
  await write(context.stdout, lines.join(''));
}

async function revokeKey(args: readonly string[], context: CliContext): Promise<void> {
  const line = readCommandLine({ options: {}, settingNames, positionals: ['ID'] }, args, context);
  const [id] = line.positionals;
  requireCredentials(line.reading.values, context);
  await using credentials = await context.openCredentials(line.reading.values);
  if (!(await new ApiKeyStore(credentials.apiKeys, context.clock).revoke(id))) {
    throw new CliError(`there is no API key ${JSON.stringify(id)}; lancegate key list shows the ids`);
  }
  await write(context.stdout, `revoked ${id}\n`);
}

/** One line, separated by tabs: id, state, subject, scopes, groups, when it was made. */
function describeKey(key: ApiKey, nowMs: number): string {
  const made = new Date(key.createdAtMs).toISOString();
  return [key.id, stateOf(key, nowMs), key.subject, key.scopes.join(' '), key.groups.join(','), made].join('\t');
}

function stateOf({ revokedAtMs, expiresAtMs }: ApiKey, nowMs: number): string {
  if (revokedAtMs !== undefined) return `revoked ${new Date(revokedAtMs).toISOString()}`;
  if (expiresAtMs === undefined) return 'valid';
  return `${expiresAtMs <= nowMs ? 'expired' : 'valid until'} ${new Date(expiresAtMs).toISOString()}`;
}
