import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { Int32, vectorFromArray } from 'apache-arrow';
import type { Catalog, KeyedAnswer, RequestOwner } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import type { IdempotencyKey } from '#src/kernel/ids.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, HeaderFields, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows, stream } from './rows.ts';

/** A row without a key is inserted each time it is merged, so one that is there twice was merged twice. */
const keyless = (n: number): Buffer => stream({ id: vectorFromArray([null], new Int32()), n: [n] });

/** The answer but for its context, which is of each request. */
function fieldsOf(answer: Answer): Record<string, unknown> {
  const { context: _, ...fields } = succeeded(answer);
  return fields;
}

const isReplay = ({ headers, body }: Answer): boolean => {
  const replayed = headers.get('idempotency-replayed');
  const { context = {} } = body as { context?: Record<string, string> };
  assert.equal(context['header.idempotency-replayed'] ?? null, replayed);
  return replayed === 'true';
};

describe('an Idempotency-Key makes a retry harmless (P6)', () => {
  const later = afterSuite();
  let service: TestService;
  let passedMs = 0;
  const clock: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + passedMs };
  before(async () => {
    service = await startCheckedService(later, { IDEMPOTENCY_RETENTION: '10m' }, clock);
  });

  const keyed = (key: string, headers: HeaderFields = {}) => ({ 'idempotency-key': key, ...headers });
  const newTable = async (): Promise<string> => {
    const table = `t${randomUUID().slice(0, 8)}`;
    succeeded(await service.post(`/v1/table/${table}/create`, keyless(0)));
    return table;
  };
  const merge = (table: string, n: number, headers: HeaderFields, query = '') =>
    service.post(`/v1/table/${table}/merge_insert?on=id${query}`, keyless(n), headers);
  const numbers = async (table: string) => (await storedRows(service, table)).map(({ n }) => n);

  /** Also of a table whose files are not where its name says. */
  const countRows = async (table: string) => (await service.post<unknown>(`/v1/table/${table}/count_rows`)).body;

  const assertReplayed = (again: Answer, first: Answer): void => {
    assert.deepEqual(fieldsOf(again), fieldsOf(first));
    assert.deepEqual([isReplay(first), isReplay(again)], [false, true]);
  };

  test('one x-request-id with one body is a retry only for the same table, branch and index', async () => {
    const [one, two] = [await newTable(), await newTable()];
    for (const table of [one, two])
      succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    for (const name of ['a', 'b']) {
      const body = { column: 'n', index_type: 'BTREE', name };
      succeeded(await service.post(`/v1/table/${one}/create_index`, body));
    }
    const same = { 'x-request-id': 'of-a-trace' };
    const metadata = { owner: 'ann' };
    const asked = [
      ...[one, two].map(
        (table) => [`${table}/add_columns`, { new_columns: [{ name: 'm', expression: '1' }] }] as const,
      ),
      ...[one, two].map((table) => [`${table}/schema_metadata/update`, metadata] as const),
      [`${one}/schema_metadata/update?branch=dev`, metadata] as const,
      ...['a', 'b'].map((name) => [`${one}/index/${name}/drop`, undefined] as const),
    ];
    for (const [path, body] of asked) {
      const replayed = async () => {
        const answer = await service.post(`/v1/table/${path}`, body, same);
        succeeded(answer);
        return answer.headers.get('idempotency-replayed');
      };
      assert.deepEqual([await replayed(), await replayed()], [null, 'true'], path);
    }
  });

  test('a merge sent again is not applied again and gets the first answer', async () => {
    const table = await newTable();
    const first = await merge(table, 1, keyed('k'));
    succeeded(await merge(table, 2, {}));
    assertReplayed(await merge(table, 1, keyed('k')), first);
    assertReplayed(await merge(table, 1, keyed('"k"')), first);
    assert.deepEqual(await numbers(table), [0, 1, 2]);
    const { transaction_id, version } = fieldsOf(first);
    const described = succeeded(await service.post(`/v1/transaction/${String(transaction_id)}/describe`));
    assert.equal((described.properties as Record<string, string>).version, String(version));
  });

  test('without a key, or with another one, the same merge is applied again', async () => {
    const table = await newTable();
    for (const headers of [{}, {}, keyed('one'), keyed('another')]) {
      assert.equal(isReplay(await merge(table, 1, headers)), false);
    }
    assert.deepEqual(await numbers(table), [0, 1, 1, 1, 1]);
  });

  test('how long the client waits and how it spells its parameters makes no difference', async () => {
    const table = await newTable();
    const first = await merge(table, 1, keyed('spelt'), '&use_index=true');
    const again = await merge(
      table,
      1,
      keyed('spelt', { 'x-request-timeout-ms': '30000' }),
      '&timeout=40s&use_index=1',
    );
    assertReplayed(again, first);
  });

  test('a body that comes compressed is the body it unfolds to', async () => {
    const table = await newTable();
    const path = `/v1/table/${table}/merge_insert?on=id`;
    const first = await merge(table, 1, keyed('packed'));
    const gzip = keyed('packed', { 'content-encoding': 'gzip' });
    const zstd = keyed('packed', { 'content-encoding': 'zstd' });
    assertReplayed(await service.post(path, gzipSync(keyless(1)), gzip), first);
    assertReplayed(await service.post(path, zstdCompressSync(keyless(1)), zstd), first);
    refused(await service.post(path, gzipSync(keyless(2)), gzip), 400, 13, /another body/);
    assert.deepEqual(await numbers(table), [0, 1]);
  });

  test('with other content the key is refused, and nothing is written', async () => {
    const [table, other] = [await newTable(), await newTable()];
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    const first = await merge(table, 1, keyed('used'));
    const says = /^idempotency-key: the key was used before for another operation, table or parameters$/;
    refused(
      await merge(table, 2, keyed('used')),
      400,
      13,
      /^idempotency-key: the key was used before with another body$/,
    );
    refused(await merge(other, 1, keyed('used')), 400, 13, says);
    refused(await merge(table, 1, keyed('used'), '&branch=dev'), 400, 13, says);
    refused(await merge(table, 1, keyed('used'), '&use_index=false'), 400, 13, says);
    refused(await merge(table, 1, keyed('used'), '&when_not_matched_insert_all=true'), 400, 13, says);
    refused(await service.post(`/v1/table/${table}_new/create`, keyless(1), keyed('used')), 400, 13, says);
    assert.deepEqual([await numbers(table), await numbers(other)], [[0, 1], [0]]);
    assertReplayed(await merge(table, 1, keyed('used')), first);
  });

  test('the same key of another principal is another key', async () => {
    const table = await newTable();
    const authorization = `Bearer ${await service.mint('lancegate:write', 'somebody else')}`;
    succeeded(await merge(table, 1, keyed('shared')));
    const theirs = await merge(table, 2, keyed('shared', { authorization }));
    assertReplayed(await merge(table, 2, keyed('shared', { authorization })), theirs);
    assert.deepEqual(await numbers(table), [0, 1, 2]);
  });

  test('a principal that may not write any more gets no earlier answer (P9)', async () => {
    const table = await newTable();
    const write = await service.mint('lancegate:write', 'demoted');
    const read = await service.mint('lancegate:read', 'demoted');
    succeeded(await merge(table, 1, keyed('k', { authorization: `Bearer ${write}` })));
    refused(await merge(table, 1, keyed('k', { authorization: `Bearer ${read}` })), 403, 15);
  });

  for (const wrong of ['', 'two words', '"open', 'x'.repeat(256)]) {
    test(`a key such as ${JSON.stringify(wrong.slice(0, 12))} is 400 by its name`, async () => {
      refused(
        await service.post('/v1/table/none/merge_insert?on=id', keyless(1), keyed(wrong)),
        400,
        13,
        /^idempotency-key: /,
      );
      refused(await service.post('/v1/table/none/create', keyless(1), keyed(wrong)), 400, 13, /^idempotency-key: /);
    });
  }

  test('a refusal is not remembered: the same request may succeed later', async () => {
    const table = `late${randomUUID().slice(0, 8)}`;
    refused(await merge(table, 1, keyed(table)), 404, 4);
    refused(await merge(table, 1, keyed(table)), 404, 4);
    succeeded(await service.post(`/v1/table/${table}/create`, keyless(0)));
    const first = await merge(table, 1, keyed(table));
    assertReplayed(await merge(table, 1, keyed(table)), first);
    assert.deepEqual(await numbers(table), [0, 1]);
  });

  test('a merge the engine refuses is not remembered either, and its key is free', async () => {
    const table = await newTable();
    const filter = (text: string) =>
      `&when_not_matched_insert_all=true&when_matched_update_all_filt=${encodeURIComponent(text)}`;
    refused(await merge(table, 1, keyed('filtered'), filter('source.nothing > 1')), 400, 12);
    succeeded(await merge(table, 9, {}));
    succeeded(await merge(table, 1, keyed('filtered'), filter('source.n > 1')));
    assert.deepEqual(await numbers(table), [0, 1, 9]);
  });

  test('an answer is kept for its time, and then the key is as good as new', async () => {
    const table = await newTable();
    const first = await merge(table, 1, keyed('aged'));
    passedMs += 9 * 60_000;
    assertReplayed(await merge(table, 1, keyed('aged')), first);
    passedMs += 60_000;
    const second = await merge(table, 2, keyed('aged'));
    assertReplayed(await merge(table, 2, keyed('aged')), second);
    assert.deepEqual(await numbers(table), [0, 1, 2]);
  });

  test('an answer outlives a restart, and its table', async () => {
    const table = await newTable();
    const first = await merge(table, 1, keyed('kept'));
    await service.restart();
    assertReplayed(await merge(table, 1, keyed('kept')), first);
    assert.deepEqual(await numbers(table), [0, 1]);
    succeeded(await service.post(`/v1/table/${table}/drop`));
    assertReplayed(await merge(table, 1, keyed('kept')), first);
  });

  test('a merge of no rows has its answer, too', async () => {
    const table = await newTable();
    const send = () =>
      service.post(`/v1/table/${table}/merge_insert?on=id`, people([], 'x').subarray(0), keyed('nothing'));
    const empty = stream({ id: vectorFromArray([], new Int32()), n: vectorFromArray([], new Int32()) });
    const sendEmpty = () => service.post(`/v1/table/${table}/merge_insert?on=id`, empty, keyed('nothing'));
    refused(await send(), 400, 20);
    const first = await sendEmpty();
    assert.equal(fieldsOf(first).version, 1);
    succeeded(await merge(table, 1, {}));
    assertReplayed(await sendEmpty(), first);
  });

  test('a merge that makes a declared table, sent again, does not insert again', async () => {
    const table = `d${randomUUID().slice(0, 8)}`;
    succeeded(await service.post(`/v1/table/${table}/declare`, {}));
    const first = await merge(table, 1, keyed(table));
    assert.equal(fieldsOf(first).num_inserted_rows, 1);
    assertReplayed(await merge(table, 1, keyed(table)), first);
    assert.deepEqual(await numbers(table), [1]);
  });

  test('a merge that deletes by source is not applied again', async () => {
    const table = await newTable();
    const remove = '&when_not_matched_by_source_delete_filt=n%3D0';
    const first = await merge(table, 1, keyed('deleted'), `&when_not_matched_insert_all${remove}`);
    assert.equal(fieldsOf(first).num_deleted_rows, 1);
    assertReplayed(await merge(table, 1, keyed('deleted'), `&when_not_matched_insert_all${remove}`), first);
    assert.deepEqual(await numbers(table), [1]);
  });

  describe('a create', () => {
    const create = (table: string, n: number, headers: HeaderFields, query = '') =>
      service.post(`/v1/table/${table}/create${query}`, keyless(n), headers);

    test('sent again gets the first answer where it would have heard that the table exists', async () => {
      const table = `c${randomUUID().slice(0, 8)}`;
      const query = `?properties=${encodeURIComponent('{"b":"2","a":"1"}')}`;
      const first = await create(table, 1, keyed(table), query);
      succeeded(await merge(table, 2, {}));
      assertReplayed(await create(table, 1, keyed(table), query), first);
      const swapped = `?mode=create&properties=${encodeURIComponent('{"a":"1","b":"2"}')}`;
      assertReplayed(await create(table, 1, keyed(table), swapped), first);
      refused(await create(table, 2, keyed(table), query), 400, 13, /another body/);
      refused(await create(table, 1, keyed(table)), 400, 13, /parameters/);
      refused(await create(table, 1, {}), 409, 5);
    });

    test('that overwrites does it once', async () => {
      const table = await newTable();
      const first = await create(table, 1, keyed('over'), '?mode=overwrite');
      succeeded(await merge(table, 2, {}));
      assertReplayed(await create(table, 1, keyed('over'), '?mode=overwrite'), first);
      assert.equal(await countRows(table), 2);
    });

    test('that finds its table (exist_ok) gets the version it found then', async () => {
      const table = await newTable();
      const first = await create(table, 1, keyed('found'), '?mode=exist_ok');
      succeeded(await merge(table, 2, {}));
      assertReplayed(await create(table, 1, keyed('found'), '?mode=exist_ok'), first);
      refused(await create(table, 3, keyed('found'), '?mode=exist_ok'), 400, 13, /another body/);
      assert.deepEqual(await numbers(table), [0, 2]);
    });

    test('of a declared table answers with the properties it was declared with', async () => {
      const table = `d${randomUUID().slice(0, 8)}`;
      succeeded(await service.post(`/v1/table/${table}/declare`, { properties: { owner: 'ann' } }));
      const first = await create(table, 1, keyed(table));
      assert.deepEqual(fieldsOf(first).properties, { owner: 'ann' });
      assertReplayed(await create(table, 1, keyed(table)), first);
    });
  });

  describe('after a crash between a commit and its record', () => {
    const owner = '["lancegate","tester"]' as RequestOwner;
    /** The service dies having recorded the write intent of a keyed merge, of which there is no other record. */
    const crash = (key: string, baseVersion: number, table: string) =>
      service.restart(async () => {
        const catalog: Catalog = await openSqliteCatalog(join(service.dataFolder, 'catalog.sqlite'), {
          holder: { command: 'a test' },
          clock: systemClock,
        });
        const found = await catalog.findKeyed(owner, key as IdempotencyKey);
        assert.ok(found !== undefined && 'answer' in found, 'the merge was recorded');
        const { answer: _, ...request } = found as KeyedAnswer;
        const record = await catalog.findTable({ namespace: [], name: table as never });
        assert.ok(record);
        const where = { tableId: record.id, ref: record.ref, branch: undefined, baseVersion };
        const again = { attempt: 'another', askedAtMs: request.expiresAtMs }; // after the end of what is recorded
        await catalog.recordIntents([{ ...request, ...again, ...where }]);
        await catalog.close();
      });

    test('a retry of a commit that was not made is applied', async () => {
      const table = await newTable();
      const { version } = fieldsOf(await merge(table, 1, keyed(table)));
      await crash(table, Number(version), table);
      const again = await merge(table, 1, keyed(table));
      assert.equal(isReplay(again), false);
      assertReplayed(await merge(table, 1, keyed(table)), again);
    });

    test('a retry of a commit that may have been made is not applied, and its answer says so', async () => {
      const table = await newTable();
      const { version } = fieldsOf(await merge(table, 1, keyed(table)));
      await crash(table, Number(version) - 1, table);
      assert.ok(service.log.some((line) => line.includes('is unknown') && line.includes(table)));
      for (let i = 0; i < 2; i++) {
        refused(await merge(table, 1, keyed(table)), 500, 18, /is not known; it was not applied again/);
      }
      refused(await merge(table, 2, keyed(table)), 400, 13, /another body/);
      assert.deepEqual(await numbers(table), [0, 1]);
    });

    test('a table that was replaced since does not tell any more', async () => {
      const table = await newTable();
      const { version } = fieldsOf(await merge(table, 1, keyed(table)));
      await crash(table, Number(version) - 1, table);
      succeeded(await service.post(`/v1/table/${table}/create?mode=overwrite`, keyless(5)));
      refused(await merge(table, 1, keyed(table)), 500, 18);
      assert.equal(await countRows(table), 1);
    });
  });
});
