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
  /** The folder of a table. */
  folderOf(table: string): Promise<string>;
}

/**
 * The service as an operator runs it: a process of its own, on its embedded defaults, with a token of its own issuer.
 * `nodeFlags` are for profiling it, `settings` are flags of `serve`, and
 * `root` is another checkout.
 */
export async function startServiceProcess(
  dataFolder: string,
  nodeFlags: readonly string[] = [],
  settings: readonly string[] = [],
  root: string = ownRoot,
): Promise<ServiceProcess> {
  const serve = ['serve', '--data', dataFolder, '--port', '0', '--log-level', 'error', ...settings];
  const server = await startServerProcess([...nodeFlags, mainIn(root), ...serve]);
  const token = await mint(root, dataFolder);
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
      return fileURLToPath((described as { location: string }).location);
    },
  };
}

async function mint(root: string, dataFolder: string): Promise<string> {
  const args = [mainIn(root), 'token', '--subject', 'bench', '--scope', 'lancegate:admin', '--data', dataFolder];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.trim().split('\n').at(-1) ?? '';
}
