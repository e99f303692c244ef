/**
 * Damaged streams, as bodies of requests to a process of its own. More of them by hand:
 * LANCEGATE_HTTP_FUZZ_RUNS=100000 LANCEGATE_FUZZ_SEED=7 node --test --test-timeout=0 test/http/hostile-mutations.test.ts
 */
import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type ServiceProcess, serviceOfTest } from '#test/fixtures/service-process.ts';
import { polarsStreams, streamsByType } from '#test/fixtures/streams.ts';
import { mutate, randomOf } from '#test/fuzz/mutations.ts';
import { entriesUnder, openStored } from '#test/http/stored.ts';

const runs = Number(process.env.LANCEGATE_HTTP_FUZZ_RUNS ?? 100);
const seed = Number(process.env.LANCEGATE_FUZZ_SEED ?? 1);
const clients = 4;

/** The first column of each is a key. */
const corpus = [
  ...(['none', 'lz4', 'zstd'] as const).flatMap(streamsByType).map((stream) => ({ ...stream, key: 'n' })),
  ...polarsStreams()
    .filter(({ bytes }) => bytes.length < 10_000)
    .map((stream) => ({ ...stream, key: 'id' })),
];

const folderOf = (created: unknown): string => basename((created as { location: string }).location, '.lance');

describe(`${runs} damaged streams, seed ${seed}: merged and created through HTTP`, () => {
  const later = afterSuite();
  let service: ServiceProcess;
  before(async () => {
    service = await serviceOfTest(later, '--body-memory=256MiB', '--drop-retention=0s');
  });
  const tally = { merged: 0, mergeRefused: 0, created: 0, createRefused: 0 };

  interface Outcome {
    readonly isDone: boolean;
    readonly body: unknown;
  }

  async function post(path: string, label: string, bytes?: Uint8Array): Promise<Outcome> {
    const { status, body } = await service.post(`/v1/table/${path}`, bytes).catch((cause: unknown) => {
      assert.fail(`${label}, ${path}: ${String(cause)}; ${service.death ?? 'the service lives'}`);
    });
    assert.ok([200, 400, 413].includes(status), `${label}, ${path}: ${status} ${JSON.stringify(body)}`);
    return { isDone: status === 200, body };
  }

  /** What the service counts is what LanceDB reads. Returns the values of `n`. */
  async function assertReadable(table: string, folder: string, label: string): Promise<readonly unknown[]> {
    const stored = await openStored(service.tablesFolder, folder);
    const [rows = []] = Object.values(await stored.rows());
    assert.equal((await post(`${table}/count_rows`, label)).body, rows.length, label);
    return rows;
  }

  async function assertOneRowPerKey(table: string, label: string): Promise<void> {
    const keys = await assertReadable(table, table, label);
    assert.equal(new Set(keys).size, keys.length, `${label}: a key twice (P2)`);
  }

  async function attempt(run: number): Promise<void> {
    const random = randomOf(seed, run);
    const base = corpus[random(corpus.length)]!;
    const { bytes, how } = mutate(base.bytes, random);
    const label = `seed ${seed}, run ${run}: ${base.title}; ${how}`;
    const table = `t${run}`;
    assert.ok((await post(`${table}/create`, label, base.bytes)).isDone, label);
    const merged = await post(`${table}/merge_insert?on=${base.key}`, label, bytes);
    await assertOneRowPerKey(table, label);
    const replaced = await post(`${table}/create?mode=overwrite`, label, bytes);
    if (replaced.isDone) await assertReadable(table, folderOf(replaced.body), label);
    else await assertOneRowPerKey(table, label);
    assert.ok((await post(`${table}/drop`, label)).isDone, label);
    tally[merged.isDone ? 'merged' : 'mergeRefused'] += 1;
    tally[replaced.isDone ? 'created' : 'createRefused'] += 1;
  }

  test('each is refused or stored, the service lives, and nothing is left (P1, P7)', async (t) => {
    const numbers = Array.from({ length: runs }, (_, run) => run).values();
    const client = async (): Promise<void> => {
      for (const run of numbers) await attempt(run);
    };
    await Promise.all(Array.from({ length: clients }, client));
    t.diagnostic(JSON.stringify(tally));
    assert.equal(service.death, undefined);
    assert.deepEqual(entriesUnder(service.tablesFolder), []);
    assert.equal(await service.metric('lancegate_body_memory_bytes'), 0, 'the memory of all bodies is given back');
    assert.ok(runs < 100 || Object.values(tally).every((count) => count > 0), 'all outcomes occur');
  });
});
