/**
 * `lancegate serve`: starts the service, says on stdout where it is and what to paste, and ends it in order. The first
 * stop signal drains; a second one ends at once. SIGHUP makes it read the policy file again.
 */
import type { Config } from '../config/settings.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { CliError } from './cli-error.ts';
import type { Command } from './command.ts';
import { allSettingNames, readCommandLine } from './command-line.ts';
import { type CliContext, write } from './context.ts';
import { firstSteps } from './first-steps.ts';
import type { Service, StartService } from './service-port.ts';

export const serveCommand = (startService: StartService): Command => ({
  name: 'serve',
  usage: 'serve [--data DIR] [--host H] [--port P] [--base-path /x] …',
  summary: 'Runs the service until SIGTERM. Every flag is also an environment variable.',
  options: undefined,

  async run(args, context) {
    const syntax = { options: {}, settingNames: allSettingNames, positionals: [] };
    const config = readCommandLine(syntax, args, context).reading.values;
    const stop = stopSignals(context);
    await Promise.race([serve(config, startService, stop.first, context), stop.second]);
  },
});

async function serve(
  config: Config,
  startService: StartService,
  stopAsked: Promise<void>,
  context: CliContext,
): Promise<void> {
  const logger = loggerFor(config, context);
  const starting = start(config, startService, logger, context);
  // A signal during the start waits for its end; if the start fails, `await starting` reports it.
  context.onReloadSignal(() => void starting.then((service) => service.reload()).catch(() => undefined));
  const service = await starting;
  // In one write: who waits for the first line may stop reading after it.
  const steps = firstSteps(config, service.url, context);
  await write(context.stdout, `lancegate listening on ${service.url}\n${steps}`);
  await stopAsked;
  logger.info({ drainTimeoutMs: config.drainTimeoutMs }, 'stopping: no new requests, those under way may finish');
  await service.close(config.drainTimeoutMs);
  logger.info({}, 'stopped');
}

async function start(
  config: Config,
  startService: StartService,
  logger: Logger,
  { clock, env }: CliContext,
): Promise<Service> {
  try {
    return await startService(config, { logger, clock, environment: env });
  } catch (error) {
    logger.debug({ error }, 'the start failed'); // the terminal gets the message without the stack
    throw error;
  }
}

function loggerFor(config: Config, { stderr }: CliContext): Logger {
  const format = config.logFormat === 'auto' ? (stderr.isTTY ? 'text' : 'json') : config.logFormat;
  return createLogger({ level: config.logLevel, format, destination: stderr });
}

/** npm passes on to us the Ctrl-C that the terminal has already sent us: two signals, one wish. */
const sameWishMs = 1_000;

interface StopSignals {
  readonly first: Promise<void>;
  /** Rejects: who asks again does not want to wait for the end of the work. */
  readonly second: Promise<never>;
}

function stopSignals({ clock, onStopSignal }: CliContext): StopSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<never>();
  let askedAtMs: number | undefined;
  onStopSignal(() => {
    askedAtMs ??= clock.nowMs();
    first.resolve();
    if (clock.nowMs() - askedAtMs >= sameWishMs) second.reject(new CliError('ended at once, by a second signal'));
  });
  return { first: first.promise, second: second.promise };
}
