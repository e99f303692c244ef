/**
 * `lancegate dev`: `serve` for who tries it. On a terminal it makes an API key and prints what to paste; elsewhere its output is the
 * log, as that of `serve`.
 */
import { ApiKeyStore } from '../auth/tokens/api-keys.ts';
import { withDefault } from '../config/options.ts';
import type { Config } from '../config/settings.ts';
import { boolean, dayMs } from '../config/value-types.ts';
import { type CliContext, type Command, write } from './command.ts';
import { allSettingNames, readCommandLine } from './command-line.ts';
import { firstSteps, samplePath, sampleTable } from './first-steps.ts';
import { ServiceClient } from './remote/service-client.ts';
import { tableRoute } from './remote/table-commands.ts';
import { type StartService, serveUntilStopped } from './serve.ts';

const options = {
  sample: withDefault(boolean, {
    flag: 'sample',
    default: 'false',
    doc: `Make the table ${sampleTable} of 50 rows with vectors, unless it is there.`,
  }),
};

export const devCommand = (startService: StartService): Command => ({
  name: 'dev',
  summary:
    'Runs the service to try it out: on a terminal it makes an API key, and prints it with commands to paste. Takes all flags of serve.',
  options: Object.values(options),
  takesAllSettings: true,

  async run(args, context) {
    const syntax = { options, settingNames: allSettingNames };
    const { options: given, reading } = readCommandLine(syntax, args, context);
    const config = reading.values;
    const isShown = context.stdout.isTTY === true;
    await serveUntilStopped(reading, startService, isShown ? endingWithTerminal(context) : context, async (url) => {
      if (!isShown && !given.sample) return;
      const key = await makeKey(config, isShown ? 7 * dayMs : 60_000, context);
      if (given.sample) await loadSample(url + config.basePath, key, context);
      if (isShown) await write(context.stdout, firstSteps(config, url, key, context));
    });
  },
});

/** The signal that makes a daemon read its files again says on a terminal that the window was closed. */
function endingWithTerminal(context: CliContext): CliContext {
  const onStopSignal = (listener: () => void): void => {
    context.onStopSignal(listener);
    context.onReloadSignal(listener);
  };
  return { ...context, onStopSignal, onReloadSignal: () => {} };
}

async function makeKey(config: Config, validMs: number, { clock, openCredentials }: CliContext): Promise<string> {
  await using credentials = await openCredentials(config);
  const expiresAtMs = clock.nowMs() + validMs;
  const request = { subject: 'dev', scopes: ['lancegate:admin'], expiresAtMs };
  const { key } = await new ApiKeyStore(credentials.apiKeys, clock).create(request);
  return key;
}

async function loadSample(url: string, key: string, context: CliContext): Promise<void> {
  const content = { type: 'application/x-ndjson', bytes: Uint8Array.from(context.readFile(samplePath(context))) };
  await new ServiceClient(url, async () => key).ask(`${tableRoute(sampleTable, 'create')}?mode=exist_ok`, { content });
}
