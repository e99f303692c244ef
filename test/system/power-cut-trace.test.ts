/**
 * No answer leaves before what it tells of would survive a power cut: read off the system calls of a real service process
 * (P3). Needs strace; where that is missing, `test/engine/durability.test.ts` says the same of the calls we make ourselves.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { Field, Int32, Struct, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import { mintToken } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const main = join(import.meta.dirname, '../../src/main.ts');
const calls = 'openat,fsync,fdatasync,write,writev,sendto,sendmsg,pwrite64,rename,renameat,renameat2,link,linkat';
const canTrace = spawnSync('strace', ['-f', '-o', '/dev/null', 'true']).status === 0;

interface Call {
  readonly name: string;
  readonly text: string;
  /** Lines of the trace: a call that another thread interrupts has two. */
  readonly startsAt: number;
  readonly endsAt: number;
}

function readTrace(path: string): readonly Call[] {
  const found: Call[] = [];
  const unfinished = new Map<string, { name: string; text: string; startsAt: number }>();
  for (const [line, content] of readFileSync(path, 'utf8').split('\n').entries()) {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(content) ?? [];
    const begun = unfinished.get(pid);
    if (rest.startsWith('<... ') && begun !== undefined) {
      found.push({ ...begun, text: begun.text + rest, endsAt: line });
      unfinished.delete(pid);
      continue;
    }
    const [, name] = /^(\w+)\(/.exec(rest) ?? [];
    if (name === undefined) continue;
    if (rest.endsWith('<unfinished ...>')) unfinished.set(pid, { name, text: rest, startsAt: line });
    else found.push({ name, text: rest, startsAt: line, endsAt: line });
  }
  return found.sort((a, b) => a.startsAt - b.startsAt);
}

const succeeded = ({ text }: Call): boolean => / = (0|\d+<.*>)$/.test(text);
/** A file gets its name when it is made, renamed or linked; the engine makes none under the name it will have. */
const isNaming = ({ name, text }: Call): boolean =>
  name.startsWith('rename') || name.startsWith('link') || (name === 'openat' && text.includes('O_CREAT'));
const isSync = ({ name }: Call): boolean => name === 'fsync' || name === 'fdatasync';

/** The name a file was given: the last path in quotes. */
const namedPath = ({ text }: Call): string => [...text.matchAll(/"([^"]*)"/g)].at(-1)?.[1] ?? '';
/** Of deletions, which the engine makes none of; only commits that replace rows by their addresses do. */
const isMadeHere = (call: Call): boolean => call.name === 'openat' && namedPath(call).endsWith('.bin');
/** `-y` shows the path behind a descriptor. */
const descriptorPath = ({ text }: Call): string => /^\w+\(\d+<([^>]*)>/.exec(text)?.[1] ?? '';

/** Names that a version of Lance needs: not the hint, nor what is renamed once more, nor intermediate results. */
const isPartOfVersion = (path: string): boolean =>
  /\/tables\/.*\/(data|_deletions|_transactions|_versions|_indices\/[^/]+|_refs\/branches)\/[^/]+\.(lance|arrow|bin|txn|manifest|json)$/.test(
    path,
  ) &&
  !path.endsWith('latest_version_hint.json') &&
  !path.includes('/lancegate=staging/');

function requireSyncedBefore(answer: Call, calls: readonly Call[], what: string): void {
  const before = calls.filter(({ startsAt }) => startsAt < answer.startsAt);
  const syncs = before.filter((call) => isSync(call) && succeeded(call) && call.endsAt < answer.startsAt);
  const isSynced = (path: string, after: number) =>
    syncs.some((call) => descriptorPath(call) === path && call.startsAt > after);
  for (const naming of before.filter((call) => isNaming(call) && succeeded(call))) {
    const path = namedPath(naming);
    if (!isPartOfVersion(path)) continue;
    assert.ok(isSynced(path, naming.endsAt), `${what} left before the content of ${path} was synced`);
    assert.ok(isSynced(dirname(path), naming.endsAt), `${what} left before the name of ${path} was synced`);
  }
  const catalogWrite = before.findLast(
    (call) => call.name === 'pwrite64' && descriptorPath(call).endsWith('catalog.sqlite-wal'),
  );
  assert.ok(catalogWrite !== undefined, 'the catalog was written');
  assert.ok(isSynced(descriptorPath(catalogWrite), catalogWrite.endsAt), `${what} left before the catalog was synced`);
}

interface TracedService {
  readonly url: string;
  stop(): Promise<void>;
}

async function startTraced(data: string, trace: string): Promise<TracedService> {
  const service = [process.execPath, main, 'serve', '--port', '0', '--data', data, '--log-level', 'error'];
  const child = spawn('strace', ['-f', '-qq', '-y', '-s', '64', '-e', `trace=${calls}`, '-o', trace, ...service], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const { url, pid } = await announced(child, data);
  return {
    url,
    stop: async () => {
      process.kill(pid, 'SIGTERM');
      await exited;
    },
  };
}

/** The process that serves is a child of the tracer; the holder file beside the catalog names it. */
async function announced({ stdout }: ChildProcess, data: string): Promise<{ url: string; pid: number }> {
  for await (const chunk of (stdout as Readable).iterator({ destroyOnReturn: false })) {
    const url = /listening on ([^\s"]+)/.exec(String(chunk))?.[1];
    if (url === undefined) continue;
    stdout?.resume();
    const holder = JSON.parse(readFileSync(join(data, 'lancegate.holder.json'), 'utf8')) as { pid: number };
    return { url, pid: holder.pid };
  }
  throw new Error('the service did not start');
}

const flat = (...ids: readonly number[]): Uint8Array =>
  tableToIPC(new Table({ id: vectorFromArray(ids, new Int32()) }), 'stream');

const nested = (...keys: readonly number[]): Uint8Array => {
  const meta = new Struct([new Field('k', new Int32(), true)]);
  return tableToIPC(
    new Table({
      meta: vectorFromArray(
        keys.map((k) => ({ k })),
        meta,
      ),
    }),
    'stream',
  );
};

const requests: readonly (readonly [path: string, body: Uint8Array | object])[] = [
  ['/v1/table/t/create', flat(1, 2, 3)],
  ['/v1/table/t/merge_insert?on=id', flat(3, 4)],
  ['/v1/table/t/merge_insert?on=id', flat(1, 5)],
  ['/v1/table/t/merge_insert?on=id', flat(1, 6)],
  ['/v1/table/t/merge_insert?on=id', flat(2, 3, 6)],
  ['/v1/table/t/create?mode=overwrite', flat(1, 2)],
  ['/v1/table/t/branches/create', { name: 'dev' }],
  ['/v1/table/t/merge_insert?on=id&branch=dev', flat(2, 9)],
  ['/v1/table/t/merge_insert?on=id&branch=dev', flat(2, 10)],
  ['/v1/table/t/merge_insert?on=id&branch=dev', flat(2, 11)],
  ['/v1/table/declared/declare', {}],
  ['/v1/table/declared/merge_insert?on=id', flat(1)],
  ['/v1/table/nested/create', nested(1, 2)],
  ['/v1/table/nested/merge_insert?on=meta.k', nested(2, 3)],
];

test('no answer leaves before its files, their names and the catalog are synced (P3)', {
  skip: canTrace ? false : 'strace is missing, or may not trace',
}, async (t) => {
  const data = temporaryFolder((clean) => t.after(clean));
  const trace = join(data, 'trace.txt');
  const token = await mintToken(data);
  const service = await startTraced(data, trace);
  t.after(() => service.stop().catch(() => undefined));
  for (const [path, body] of requests) {
    const isStream = body instanceof Uint8Array;
    const type = isStream ? 'application/vnd.apache.arrow.stream' : 'application/json';
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': type },
      body: isStream ? new Uint8Array(body) : JSON.stringify(body),
    });
    assert.equal(response.status, 200, `${path}: ${await response.text()}`);
  }
  await service.stop();
  const seen = readTrace(trace);
  const answers = seen.filter((call) => call.text.includes('HTTP/1.1 200'));
  assert.equal(answers.length, requests.length);
  for (const [index, answer] of answers.entries()) {
    requireSyncedBefore(answer, seen, `the answer to ${requests[index]?.[0]}`);
  }
  assert.ok(seen.filter((call) => isNaming(call) && isPartOfVersion(namedPath(call))).length > 25);
  assert.ok(seen.some(isMadeHere), 'rows were replaced by their addresses');
});
