/** Looks at the service that runs on the data folder, or at the port that the next one will take. */
import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { get as httpsGet } from 'node:https';
import { createServer } from 'node:net';
import type { Config } from '../../config/settings.ts';
import { KiB } from '../../config/value-types.ts';
import { codeOf } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { type CliContext, CliError, versionOf } from '../command.ts';
import { type Finding, failed, type Look, ok, plain, reasonOf, warning } from './finding.ts';

export const lookAtService: Look = async ({ config, running, context }) => {
  if (running === undefined) return ok(`none runs on ${config.dataFolder}`);
  try {
    return await healthOf(running.url, context);
  } catch (error) {
    return failed(
      `it was at ${running.url}, and cannot be asked: ${reasonOf(error)}`,
      'if its process has ended, as after a crash, start it again; if it runs, read its log',
    );
  }
};

type Health = Readonly<Record<string, unknown>>;

const mostHealthBytes = 64 * KiB;

/** No credential is sent, so any certificate will do: it need not name the address that the service listens on. */
async function ask(url: string): Promise<{ readonly isWell: boolean; readonly health: Health }> {
  const signal = AbortSignal.timeout(5_000);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked = url.startsWith('https:')
      ? httpsGet(url, { signal, rejectUnauthorized: false }, resolve)
      : httpGet(url, { signal }, resolve);
    asked.on('error', reject);
  });
  let text = '';
  for await (const chunk of answer) {
    text += String(chunk);
    if (text.length > mostHealthBytes) throw noLancegate();
  }
  return { isWell: answer.statusCode === 200, health: healthIn(text) };
}

function healthIn(text: string): Health {
  try {
    const health: unknown = JSON.parse(text);
    if (isObject(health)) return health;
  } catch {
    // translated: no JSON is no health either
  }
  throw noLancegate();
}

const noLancegate = (): CliError => new CliError('what answers there is no lancegate service');

async function healthOf(url: string, context: CliContext): Promise<Finding> {
  const [alive, ready] = await Promise.all([ask(`${url}/healthz`), ask(`${url}/readyz`)]);
  const version = plain(String(alive.health.version));
  const said = `lancegate ${version} is at ${url}`;
  if (!ready.isWell) {
    return failed(
      `${said}, and takes no requests: ${plain(String(ready.health.error))}`,
      'wait if it is stopping; else read its log',
    );
  }
  const behind = alive.health.branches_behind;
  if (typeof behind === 'number') {
    return warning(
      `${said}; ${behind} branches went back`,
      'docs/operations.md, "A table that went back", says how to decide',
    );
  }
  if (version !== versionOf(context))
    return warning(said, `this command is ${versionOf(context)}: restart the service`);
  return ok(`${said}, and ready`);
}

export const lookAtPort: Look = async ({ config: { host, port }, running }) => {
  if (running !== undefined) return ok(`the service was started at ${running.url}`);
  if (port === 0) return ok('a start takes a free one');
  const server = createServer();
  try {
    server.listen({ host, port });
    await once(server, 'listening');
    return ok(`${port} of ${host} is free`);
  } catch (error) {
    return refusalOfPort(error, { host, port });
  } finally {
    server.close();
  }
};

/** Gives the words that stand behind "port" in the finding. */
export function refusalOfPort(error: unknown, { host, port }: Pick<Config, 'host' | 'port'>): Finding {
  const where = `${port} of ${host}`;
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return failed(`${where} is taken by another program`, 'stop that program, or name another port by --port');
    case 'EACCES':
      return failed(`${where} needs a right that this user has not`, 'name a port above 1023 by --port');
    default:
      return failed(`${where} cannot be listened on: ${reasonOf(error)}`, 'name an address of this machine by --host');
  }
}
