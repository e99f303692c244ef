/**
 * `lancegate serve` starts the service, says where it is in the one line that goes to stdout, and ends it in order. The first
 * stop signal drains; a second one ends at once. SIGHUP makes it read the policy file again.
 */
import { type EffectiveSetting, effectiveSettings } from '../config/describe-config.ts';
import type { Environment } from '../config/environment.ts';
import type { ConfigReading } from '../config/read-config.ts';
import { type Config, settings } from '../config/settings.ts';
import type { Clock } from '../kernel/clock.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { entriesOf } from '../kernel/paired.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { type CliContext, CliError, type Command, versionOf, write } from './command.ts';
import { commandOf } from './command-line.ts';
import { refusalOfPort } from './doctor/listening.ts';

export interface Service {
  /** `http://HOST:PORT`, with the port that was really taken and without the base path. */
  readonly url: string;
  /** Reloads the policy file, if there is one, and reopens the audit file. Never rejects: errors go to the log. */
  reload(): Promise<void>;
  /** Takes no new requests, gives those under way `drainMs` to finish, then closes everything. */
  close(drainMs: number): Promise<void>;
}

/** Throws an error whose message is fit for the operator's terminal, such as who holds the data folder. */
export type StartService = (config: Config, parts: StartParts) => Promise<Service>;

export interface StartParts {
  /** It is the version of the package. */
  readonly version: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** The settings that operators may see. */
  readonly settings: EffectiveSetting[];
  /** The environment of the process. Readers get a part of it. */
  readonly environment: Environment;
  /** Makes it the place of this process's temporary files; missing where the process is not the service's alone. */
  readonly useTemporaryFolder?: (path: string) => void;
}

export const serveCommand = (startService: StartService): Command =>
  commandOf(
    {
      name: 'serve',
      summary: 'Runs the service until SIGTERM. Every flag is also an environment variable.',
      options: {},
      settings: entriesOf(settings).map(([name]) => name),
    },
    ({ reading }, context) => serveUntilStopped(reading, startService, context),
  );

/** `whenStarted` is called with the service's URL once it answers requests. */
export async function serveUntilStopped(
  reading: ConfigReading,
  startService: StartService,
  context: CliContext,
  whenStarted: (url: string) => Promise<void> = async () => {},
): Promise<void> {
  const config = reading.values;
  const stop = stopSignals(context);
  const serve = async (): Promise<void> => {
    const logger = loggerFor(config, context);
    const starting = start(reading, startService, logger, context);
    // A signal during the start waits for its end; if the start fails, `await starting` reports it.
    context.onReloadSignal(() => void starting.then((service) => service.reload()).catch(() => undefined));
    const service = await starting;
    await write(context.stdout, startLine(config, service.url, context));
    await whenStarted(openedAt(service.url));
    await stop.first;
    logger.info({ drainTimeoutMs: config.drainTimeoutMs }, 'stopping: no new requests, those under way may finish');
    await service.close(config.drainTimeoutMs);
    logger.info({}, 'stopped');
  };
  await Promise.race([serve(), stop.second]);
}

/** All addresses are none that a browser everywhere can open. */
const openedAt = (url: string): string => url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');

/** Makes a line in the form of the log. The service writes it to stdout at any level, since programs wait for it. */
function startLine(config: Config, url: string, context: CliContext): string {
  const { dataFolder, storageRoot, basePath } = config;
  let line = '';
  const logger = loggerFor({ ...config, logLevel: 'info' }, context, (text) => {
    line += text;
  });
  const fields = { version: versionOf(context), dataFolder, storageRoot, pages: [`${openedAt(url)}${basePath}/docs`] };
  logger.info(fields, `lancegate listening on ${url}`);
  return line;
}

async function start(
  reading: ConfigReading,
  startService: StartService,
  logger: Logger,
  context: CliContext,
): Promise<Service> {
  const { clock, env: environment } = context;
  try {
    const parts = { version: versionOf(context), settings: effectiveSettings(reading), logger, clock, environment };
    return await startService(reading.values, parts);
  } catch (error) {
    logger.debug({ error }, 'the start failed'); // the terminal gets the message without the stack
    throw inWords(error, reading.values);
  }
}

/** Says what the system refuses at the start, and what to do; all else has a sentence of its own. */
function inWords(error: unknown, config: Config): unknown {
  const { syscall, code, path } = isObject(error) ? error : {};
  if (syscall === 'listen') {
    const { said, next } = refusalOfPort(error, config);
    return new CliError(`port ${said}: ${next}`, { cause: error });
  }
  if (syscall !== 'mkdir') return error;
  const flag = String(path).startsWith(config.dataFolder) ? '--data' : '--storage-root';
  const next = `let this user write where it would be, or name another folder by ${flag}`;
  return new CliError(`the folder ${path} cannot be made (${code}): ${next}`, { cause: error });
}

function loggerFor(
  { logFormat, logLevel: level }: Config,
  { stderr }: CliContext,
  writeLine = (line: string): unknown => stderr.write(line),
): Logger {
  const format = logFormat === 'auto' ? (stderr.isTTY ? 'text' : 'json') : logFormat;
  return createLogger({ level, format, destination: { write: writeLine } });
}

interface StopSignals {
  readonly first: Promise<void>;
  /** Rejects: a second request does not wait for the end of the work. */
  readonly second: Promise<never>;
}

function stopSignals({ clock, onStopSignal }: CliContext): StopSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<never>();
  let askedAtMs: number | undefined;
  onStopSignal(() => {
    askedAtMs ??= clock.nowMs();
    first.resolve();
    // npm passes on the Ctrl-C that the terminal sent to this process too: two signals within a second are one wish.
    if (clock.nowMs() - askedAtMs >= 1_000) second.reject(new CliError('ended at once, by a second signal'));
  });
  return { first: first.promise, second: second.promise };
}
