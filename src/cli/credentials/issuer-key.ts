import { type AcceptedKey, type IssuerKeys, openIssuerKeys, rotateIssuerKey } from '../../auth/tokens/issuer-key.ts';
import { withDefault } from '../../config/options.ts';
import { settings } from '../../config/settings.ts';
import { durationMs } from '../../config/value-types.ts';
import { dayMs } from '../../kernel/clock.ts';
import { type CliContext, type CommandGroup, write } from '../command.ts';
import { credentialSettings, readCommandLine } from '../command-line.ts';
import { requireCredentials } from './token.ts';

const rotateOptions = {
  acceptOldFor: withDefault(durationMs(0, 3_660 * dayMs), {
    flag: 'accept-old-for',
    default: '12h',
    doc: 'How long the service accepts tokens of the old key. `0s` ends all tokens of all old keys; use it if others may have the key.',
  }),
};

const settingNames = credentialSettings;

const credentialOptions = settingNames.map((name) => settings[name]);

export const issuerKeyCommands: CommandGroup = {
  name: 'issuer-key',
  summary: 'Replaces the key that signs tokens of the own issuer, or lists the accepted keys.',
  commands: [
    {
      name: 'rotate',
      summary: 'Makes a new key, with which all new tokens are signed. The running service follows.',
      options: [...Object.values(rotateOptions), ...credentialOptions],
      run: rotate,
    },
    {
      name: 'list',
      summary: 'Prints a line for each accepted key: the `kid` of its tokens, and its state.',
      options: credentialOptions,
      run: list,
    },
  ],
};

async function rotate(args: readonly string[], context: CliContext): Promise<void> {
  const line = readCommandLine({ options: rotateOptions, settingNames }, args, context);
  requireCredentials(line.reading.values, context);
  const rotation = { clock: context.clock, acceptOldForMs: line.options.acceptOldFor };
  await using credentials = await context.openCredentials(line.reading.values);
  await show(await rotateIssuerKey(credentials.issuerKeys, rotation), context);
}

async function list(args: readonly string[], context: CliContext): Promise<void> {
  const { reading } = readCommandLine({ options: {}, settingNames }, args, context);
  requireCredentials(reading.values, context);
  await using credentials = await context.openCredentials(reading.values);
  await show(await openIssuerKeys(credentials.issuerKeys), context);
}

/** One line for each key, separated by a tab: its id, the `kid` of its tokens, and its state. */
async function show({ accepted }: IssuerKeys, { stdout, clock }: CliContext): Promise<void> {
  const nowMs = clock.nowMs();
  await write(stdout, accepted.map((key) => `${key.id}\t${stateOf(key, nowMs)}\n`).join(''));
}

function stateOf({ acceptedUntilMs }: AcceptedKey, nowMs: number): string {
  if (acceptedUntilMs === Number.POSITIVE_INFINITY) return 'signs';
  return `${acceptedUntilMs > nowMs ? 'accepted until' : 'ended'} ${new Date(acceptedUntilMs).toISOString()}`;
}
