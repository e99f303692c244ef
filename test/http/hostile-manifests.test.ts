/**
 * Damaged manifests, proposed as versions. More of them by hand:
 * LANCEGATE_HTTP_FUZZ_RUNS=5000 LANCEGATE_FUZZ_SEED=7 node --test --test-timeout=0 test/http/hostile-manifests.test.ts
 */
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { propose, stage, stagedBytes } from '#test/fixtures/proposed-version.ts';
import { type ServiceProcess, serviceOfTest } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { mutatedManifest } from '#test/fuzz/manifest-mutations.ts';
import { randomOf } from '#test/fuzz/mutations.ts';

const runs = Number(process.env.LANCEGATE_HTTP_FUZZ_RUNS ?? 30);
const seed = Number(process.env.LANCEGATE_FUZZ_SEED ?? 1);
const clients = 2;

const rowsFrom = (first: number, count: number) =>
  Array.from({ length: count }, (_, at) => ({
    ...{ id: first + at, name: `row ${first + at}`, vector: [first + at, 1, 2, 3] },
    ...{ place: { x: at, y: 'y' }, numbers: [1, 2] },
  }));

for (const hasRowIds of [false, true])
  describe(`${runs} damaged manifests${hasRowIds ? ' of rows with ids' : ''}, seed ${seed}: proposed as versions`, () => {
    const later = afterSuite();
    let service: ServiceProcess;
    let original = '';
    let proposed: Buffer;
    const tally = { refused: 0, taken: 0 };

    before(async () => {
      service = await serviceOfTest(later);
      const folder = temporaryFolder(later);
      original = join(folder, 't.lance');
      const storageOptions = { new_table_enable_stable_row_ids: String(hasRowIds) };
      const table = await (await connect(folder)).createTable('t', rowsFrom(0, 300), { storageOptions });
      await table.createIndex('id');
      await table.createIndex('vector', { config: Index.ivfFlat({ numPartitions: 2 }) });
      await table.delete('id = 5');
      table.close();
      proposed = stagedBytes(await propose(later, original, (copy) => copy.add(rowsFrom(300, 10))));
    });

    const post = async (path: string, label: string, body: object = {}) => {
      const headers = { authorization: service.authorization, 'content-type': 'application/json' };
      const request = { method: 'POST', headers, body: JSON.stringify(body) };
      const answer = await fetch(`${service.url}/v1/table/${path}`, request).catch((cause: unknown) => {
        assert.fail(`${label}, ${path}: ${String(cause)}; ${service.death ?? 'the service lives'}`);
      });
      const bytes = await answer.bytes();
      const isJson = answer.headers.get('content-type')?.includes('json') === true;
      return { status: answer.status, body: isJson ? JSON.parse(Buffer.from(bytes).toString()) : bytes.length };
    };
    const read = async (path: string, label: string, body: object = {}) => {
      const answer = await post(path, label, body);
      assert.equal(answer.status, 200, `${label}, ${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    };

    async function assertReadable(table: string, rows: number | undefined, label: string): Promise<void> {
      const { schema } = (await read(`${table}/describe`, label)) as { schema: { fields: { name: string }[] } };
      const names = schema.fields.map(({ name }) => name);
      const counted = (await read(`${table}/count_rows`, label)) as unknown as number;
      assert.equal(counted, rows ?? counted, label);
      for (const name of names.filter((each) => /^[a-z]+$/i.test(each) && each !== 'vector')) {
        const predicate = `${name} IS NOT NULL OR ${name} IS NULL`;
        assert.equal(await read(`${table}/count_rows`, label, { predicate }), counted, `${label}: ${predicate}`);
      }
      if (names.includes('id')) await read(`${table}/count_rows`, label, { predicate: 'id = 7' });
      await read(`${table}/query`, label, { k: 1_000, vector: {} });
      if (names.includes('vector'))
        await read(`${table}/query`, label, { k: 5, vector: { single_vector: [1, 2, 3, 4] } });
      await read(`${table}/index/list`, label);
      await read(`${table}/version/list`, label);
    }

    /** What changed may forbid any of them, and none ends in a fault. */
    async function assertWritable(table: string, label: string): Promise<void> {
      const writes = {
        'merge_insert?on=id': [{ id: 7, name: 'seven' }],
        update: { predicate: 'id = 8', updates: [['name', "'eight'"]] },
        delete: { predicate: 'id = 9' },
        maintain: {},
      };
      for (const [path, body] of Object.entries(writes)) {
        const answer = await post(`${table}/${path}`, label, body);
        assert.ok(answer.status < 500, `${label}, ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      }
    }

    async function attempt(run: number): Promise<void> {
      const { bytes, how } = mutatedManifest(proposed, randomOf(seed, run));
      const label = `seed ${seed}, run ${run}: ${how}`;
      const table = `t${run}`;
      const path = join(service.tablesFolder, `${table}.lance`);
      cpSync(original, path, { recursive: true });
      await read(`${table}/register`, label, { location: `${table}.lance` });
      const answer = await post(`${table}/version/create`, label, stage(path, 5, bytes));
      assert.ok([200, 400].includes(answer.status), `${label}: ${answer.status} ${JSON.stringify(answer.body)}`);
      await assertReadable(table, answer.status === 200 ? undefined : 299, label);
      await assertWritable(table, label);
      await assertReadable(table, undefined, `${label}, written to`);
      tally[answer.status === 200 ? 'taken' : 'refused'] += 1;
      await read(`${table}/drop`, label);
    }

    test('each is refused and nothing published, or taken, read and written to (P9, P12)', async (t) => {
      const numbers = Array.from({ length: runs }, (_, run) => run).values();
      const client = async (): Promise<void> => {
        for (const run of numbers) await attempt(run);
      };
      await Promise.all(Array.from({ length: clients }, client));
      t.diagnostic(JSON.stringify(tally));
      assert.ok(runs < 20 || (tally.taken > 0 && tally.refused > 0));
    });
  });
