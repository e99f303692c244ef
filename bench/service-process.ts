import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Body, type ServerProcess, startServerProcess } from './server-process.ts';

const ownRoot = fileURLToPath(new URL('..', import.meta.url));
const mainIn = (root: string): string => join(root, 'bin/lancegate.js');

export interface ServiceProcess extends Omit<ServerProcess, 'post'> {
  readonly port: number;
  readonly token: string;
  /** POSTs an Arrow stream of any length and answers the parsed response; anything but 200 is an error. */
  post(path: string, body: Body): Promise<Record<string, unknown>>;
  /** The folder of a table, or its URL on an object store. */
  folderOf(table: string): Promise<string>;
}

/**
 * The service as an operator runs it: a process of its own, on its embedded defaults, with a token of its own issuer.
 * `nodeFlags` are for profiling it, `settings` are flags of `serve`, and
 * `root` is another checkout.
 */
export function startServiceProcess(
  dataFolder: string,
  nodeFlags: readonly string[] = [],
  settings: readonly string[] = [],
  root: string = ownRoot,
): Promise<ServiceProcess> {
  return serve({ dataFolder, nodeFlags, settings, root, catalog: ['--data', dataFolder] });
}

/** The same as one of several processes that share the catalog of this URL. */
export function startReplicaProcess(
  dataFolder: string,
  catalogUrl: string,
  settings: readonly string[],
): Promise<ServiceProcess> {
  const catalog = ['--catalog', catalogUrl];
  return serve({
    dataFolder,
    nodeFlags: [],
    settings: ['--own-issuer', ...catalog, ...settings],
    root: ownRoot,
    catalog,
  });
}

interface Serving {
  readonly dataFolder: string;
  readonly nodeFlags: readonly string[];
  readonly settings: readonly string[];
  readonly root: string;
  /** The flags of a command that needs no more than the catalog. */
  readonly catalog: readonly string[];
}

async function serve({ dataFolder, nodeFlags, settings, root, catalog }: Serving): Promise<ServiceProcess> {
  const command = ['serve', '--data', dataFolder, '--port', '0', '--log-level', 'error', ...settings];
  const server = await startServerProcess([...nodeFlags, mainIn(root), ...command]);
  const token = await mint(root, catalog);
  const authorization = `Bearer ${token}`;
  return {
    ...server,
    port: Number(new URL(server.url).port),
    token,
    post: (path, body) =>
      server.post(path, body, { authorization, 'content-type': 'application/vnd.apache.arrow.stream' }),
    folderOf: async (table) => {
      const headers = { authorization, 'content-type': 'application/json' };
      const described = await server.post(`/v1/table/${table}/describe`, Buffer.from('{}'), headers);
      const { location } = described as { location: string };
      return location.startsWith('file:') ? fileURLToPath(location) : location;
    },
  };
}

async function mint(root: string, catalog: readonly string[]): Promise<string> {
  const args = [mainIn(root), 'token', '--subject', 'bench', '--scope', 'lancegate:admin', ...catalog];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.trim().split('\n').at(-1) ?? '';
}
