/**
 * How much code one request passes: starts the service of a repository, sends it creates, upserts and others, and lists the files of
 * `src` of which a function ran in its main thread from the request to the answer of each of them. So maintenance and timers,
 * which run beside some requests only, are not in the list. One timer may run beside each of those traced, so the limits leave
 * room for a file of it. Lines are those of the whole files, as a reader would have to open them. Fails where there are more than
 * `most`, which is lowered with what it counts; who raises it says why in the same commit.
 *   node scripts/files-on-a-path.ts [root of a repository]
 */
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { tableFromArrays, tableToIPC } from 'apache-arrow';

const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'));
const main = join(root, 'src', 'main.ts');
const most = {
  create: { files: 82, functions: 660 },
  merge: { files: 118, functions: 1040 },
  query: { files: 52, functions: 317 },
  update: { files: 97, functions: 770 },
  compaction: { files: 109, functions: 860 },
};
const upsertsBefore = 20;
const traced = 5;

/** What V8 writes: https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-ScriptCoverage */
interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
    }[];
  }[];
}

const folder = mkdtempSync(join(tmpdir(), 'lancegate-path-'));
const coverageFolder = join(folder, 'coverage');
const data = join(folder, 'data');
const { stdout: minted } = await promisify(execFile)(process.execPath, [
  ...[main, 'token', '--subject', 'path', '--scope', 'lancegate:admin', '--allow-unknown', '--data', data],
]);
const authorization = `Bearer ${minted.trim().split('\n').at(-1)}`;
const preload = pathToFileURL(join(import.meta.dirname, 'take-coverage-on-signal.ts')).href;
const service = spawn(process.execPath, [main, 'serve', '--port', '0', '--data', data, '--log-level', 'error'], {
  env: { PATH: process.env.PATH, NODE_V8_COVERAGE: coverageFolder, NODE_OPTIONS: `--import=${preload}` },
  stdio: ['ignore', 'pipe', 'inherit'],
});

try {
  const url = await listening();
  await send(`${url}/v1/table/rows/create`, 0);
  const create = await functionsOfEach((index) => send(`${url}/v1/table/other${index}/create`, 0));
  const upsert = `${url}/v1/table/rows/merge_insert?on=id&when_matched_update_all=true&when_not_matched_insert_all=true`;
  for (let sent = 0; sent < upsertsBefore; sent++) await send(upsert, 50 + sent);
  const merge = await functionsOfEach((index) => send(upsert, 60 + index));
  report('create', create);
  report('merge', merge);
  const table = `${url}/v1/table/rows`;
  const query = () => sendJson(`${table}/query`, { k: 3 });
  const update = () => sendJson(`${table}/update`, { updates: [['score', 'score + 1']], predicate: 'id = 3' });
  const compact = () => sendJson(`${table}/maintain`, {});
  for (const once of [query, update, compact]) await once(); // what a first request loads and starts is on no later path
  report('query', await functionsOfEach(query));
  report('update', await functionsOfEach(update));
  report('compaction', await functionsOfEach(compact, (index) => send(upsert, 1_000 + 100 * index)));
} finally {
  service.kill('SIGTERM');
  await new Promise((ended) => service.once('exit', ended));
  rmSync(folder, { recursive: true, force: true });
}

async function listening(): Promise<string> {
  for await (const chunk of service.stdout) {
    const url = /listening on ([^\s"]+)/.exec(String(chunk))?.[1];
    service.stdout.resume();
    if (url !== undefined) return url;
  }
  throw new Error('the service did not start');
}

/** 100 rows with keys from `first` on. */
async function send(url: string, first: number): Promise<void> {
  const id = BigInt64Array.from({ length: 100 }, (_, index) => BigInt(first + index));
  const body = tableToIPC(tableFromArrays({ id, score: Float64Array.from(id, Number) }), 'stream');
  const headers = { authorization, 'content-type': 'application/vnd.apache.arrow.stream' };
  const answer = await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) });
  if (answer.status !== 200) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

async function sendJson(url: string, body: unknown): Promise<void> {
  const headers = { authorization, 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  if (answer.status !== 200) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

/** Those that ran in each of the requests. `before` runs before each, and is not traced. */
async function functionsOfEach(
  run: (index: number) => Promise<void>,
  before: (index: number) => Promise<void> = async () => undefined,
): Promise<readonly string[]> {
  let inAll: ReadonlySet<string> | undefined;
  for (let index = 0; index < traced; index++) {
    await before(index);
    const ran = new Set(await functionsThatRan(() => run(index)));
    inAll = inAll?.intersection(ran) ?? ran;
  }
  return [...(inAll ?? [])].sort();
}

/** Each as its file and its place in it. */
async function functionsThatRan(run: () => Promise<void>): Promise<readonly string[]> {
  await takeCoverage();
  await run();
  const { result } = await takeCoverage();
  const source = pathToFileURL(join(root, 'src/')).href;
  return result
    .filter(({ url }) => url.startsWith(source))
    .flatMap(({ url, functions }) =>
      functions.flatMap(({ ranges: [whole] }) =>
        whole !== undefined && whole.count > 0 ? [`${relative(root, fileURLToPath(url))}:${whole.startOffset}`] : [],
      ),
    );
}

async function takeCoverage(): Promise<Coverage> {
  const ofService = (): string[] =>
    readdirSync(folder).includes('coverage')
      ? readdirSync(coverageFolder).filter((name) => name.startsWith(`coverage-${service.pid}-`))
      : [];
  const before = new Set(ofService());
  service.kill('SIGUSR2');
  for (;;) {
    const written = ofService().find((name) => !before.has(name));
    const coverage = written === undefined ? undefined : parsed(join(coverageFolder, written));
    if (coverage !== undefined) return coverage;
    await sleep(20);
  }
}

/** Undefined while the file is being written. */
function parsed(path: string): Coverage | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Coverage;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function report(what: keyof typeof most, functions: readonly string[]): void {
  const files = [...new Set(functions.map((name) => name.slice(0, name.lastIndexOf(':'))))];
  const lines = files.reduce((sum, file) => sum + readFileSync(join(root, file), 'utf8').split('\n').length - 1, 0);
  const limit = most[what];
  console.log(
    `${what}: ${functions.length} functions (at most ${limit.functions}) in ${files.length} files (at most ${limit.files}), ${lines} lines`,
  );
  const rooms = Object.groupBy(files, (file) => file.split('/').slice(0, -1).join('/'));
  for (const [room, inRoom = []] of Object.entries(rooms)) {
    console.log(`  ${room}: ${inRoom.map((file) => file.slice(room.length + 1).replace('.ts', '')).join(', ')}`);
  }
  if (functions.length > limit.functions || files.length > limit.files) process.exitCode = 1;
}
