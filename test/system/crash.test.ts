/** What is there after the process was killed, as the next one and plain LanceDB see it. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { mintToken, startServiceProcess } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';

const stream = (ids: readonly number[], request: string): Uint8Array =>
  tableToIPC(
    new Table({
      id: vectorFromArray(ids, new Int32()),
      request: vectorFromArray(
        ids.map(() => request),
        new Utf8(),
      ),
    }),
    'stream',
  );

/** A stream whose record batch comes again and again, as long as it is read. */
function* endlessStream(): Generator<Uint8Array, never, void> {
  const ids = Array.from({ length: 20_000 }, (_, i) => i);
  const bytes = stream(ids, 'of a create that never ends');
  const schemaBytes = 8 + new DataView(bytes.buffer, bytes.byteOffset).getInt32(4, true);
  const endBytes = 8;
  yield bytes.subarray(0, schemaBytes);
  for (;;) yield bytes.subarray(schemaBytes, -endBytes);
}

/** Resolves once several chunks of data of so many tables lie on the storage. */
async function untilWritten(folder: string, tables: number): Promise<void> {
  const chunksOf = (table: string) => filesUnder(join(folder, table)).filter((name) => name.endsWith('.lance')).length;
  const written = () => readdirSync(folder).filter((table) => chunksOf(table) >= 4).length;
  await eventually(`chunks of ${tables} tables are written`, () => written() >= tables);
}

const filesUnder = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
        entry.isFile() ? entry.name : [],
      )
    : [];

describe('after kill -9', () => {
  test('a create and an overwrite that were cut short have left no table and no file, and changed nothing (P1)', async (t) => {
    const later = lastFirst((clean) => t.after(clean));
    const data = temporaryFolder(later);
    const tables = join(data, 'tables');
    const token = await mintToken(data);
    const first = await startServiceProcess(data, token, { chunkBytes: 2 ** 20 });
    later(() => first.kill());
    assert.equal((await first.post('/v1/table/t/create', stream([1, 2], 'old'))).status, 200);
    const before = filesUnder(tables).sort();
    const cutShort: Promise<void>[] = [];
    for (const [count, path] of ['big/create', 't/create?mode=overwrite'].entries()) {
      const upload = first.upload(`/v1/table/${path}`, endlessStream());
      upload.catch(() => undefined);
      cutShort.push(upload);
      await untilWritten(tables, count + 1);
    }
    assert.equal((await first.post('/v1/table/big/exists')).status, 404, 'no client sees it before it is complete');
    await first.kill();
    for (const upload of cutShort) await assert.rejects(upload);
    assert.notDeepEqual(filesUnder(tables).sort(), before, 'the crash did leave files');

    const second = await startServiceProcess(data, token);
    later(() => second.kill());
    assert.deepEqual(filesUnder(tables).sort(), before);
    assert.equal((await second.post('/v1/table/big/exists')).status, 404);
    assert.equal((await second.post('/v1/table/big/create', stream([1, 2], 'small'))).status, 200);
    assert.equal((await second.post('/v1/table/big/count_rows')).body, 2);
    assert.equal((await second.post('/v1/table/t/merge_insert?on=id', stream([2, 3], 'new'))).body.version, 2);
    assert.equal(await second.stop(), 0);
  });

  test('every upsert that was acknowledged is there, every other one wholly or not at all (P1, P3)', async (t) => {
    const killedAfter = 40;
    const later = lastFirst((clean) => t.after(clean));
    const data = temporaryFolder(later);
    const token = await mintToken(data);
    const first = await startServiceProcess(data, token);
    later(() => first.kill());
    assert.equal((await first.post('/v1/table/t/create', stream([0], 'create'))).status, 200);
    const acknowledged: string[] = [];
    let sent = 0;
    let killed: Promise<void> | undefined;
    const client = async (): Promise<void> => {
      while (killed === undefined) {
        sent += 1;
        const request = `request ${sent}`;
        const body = stream([10 * sent, 10 * sent + 1, 10 * sent + 2], request);
        const answer = await first.post('/v1/table/t/merge_insert?on=id', body).catch(() => undefined);
        if (answer === undefined) return;
        assert.equal(answer.status, 200, JSON.stringify(answer.body));
        acknowledged.push(request);
        if (acknowledged.length === killedAfter) killed = first.kill();
      }
    };
    await Promise.all([client(), client(), client(), client()]);
    await killed;

    const second = await startServiceProcess(data, token);
    later(() => second.kill());
    const count = (filter: string) => second.post('/v1/table/t/count_rows', { predicate: filter });
    const table = await (await connect(join(data, 'tables'))).openTable('t');
    const requests = (await table.query().select(['request']).toArray()).map((row) => String(row.request));
    for (let request = 1; request <= sent; request++) {
      const name = `request ${request}`;
      const rows = requests.filter((other) => other === name).length;
      if (acknowledged.includes(name)) assert.equal(rows, 3, `${name} was acknowledged`);
      else assert.ok(rows === 0 || rows === 3, `${name} is there by ${rows} of its 3 rows`);
    }
    assert.ok(acknowledged.length >= killedAfter);
    assert.deepEqual((await count("request = 'create'")).body, 1);
    const again = await second.post('/v1/table/t/merge_insert?on=id', stream([0, 10], 'after'));
    assert.deepEqual([again.body.num_updated_rows, again.body.num_inserted_rows], [2, 0]);
    assert.equal(await second.stop(), 0);
  });
});
