/** Upserts on an object store whose files are uploaded while the manifest of the commit before them is written. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type S3Gateway, startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { type Answer, type HeaderFields, startTestService, type TestService } from '#test/fixtures/service.ts';
import { type Fault, isCommit, type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { succeeded } from '#test/http/checked-service.ts';
import { people } from '#test/http/rows.ts';

const countsOf = (answer: Answer): unknown[] => {
  const { num_inserted_rows, num_updated_rows, version } = succeeded(answer);
  return [num_inserted_rows, num_updated_rows, version];
};

describe('a commit that is prepared while the one before it is under way', { skip: withoutS3Gateway ?? false }, () => {
  const after = afterSuite();
  let gateway: S3Gateway;
  let proxy: StoreProxy;
  let service: TestService;
  let root: string;
  before(async () => {
    gateway = await startS3Gateway(after);
    proxy = await startStoreProxy(after, gateway.storageOptions);
    root = gateway.newRoot();
    service = await startTestService(after, {
      STORAGE_ROOT: root,
      STORAGE_OPTIONS: JSON.stringify(proxy.storageOptions),
    });
  });

  const merge = (table: string, ids: number[], name: string, headers: HeaderFields = {}) =>
    service.post(`/v1/table/${table}/merge_insert?on=id`, people(ids, name), headers);

  /** Rows 1 to 6, each `old`, and the key index. Returns the version. */
  async function opened(table: string, options: object = {}): Promise<number> {
    const query = `storage_options=${encodeURIComponent(JSON.stringify(options))}`;
    succeeded(await service.post(`/v1/table/${table}/create?${query}`, people([1, 2, 3, 4, 5, 6], 'old')));
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const directCommits = async () => {
      const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
      return Number(/^lancegate_shared_commits_total\{counted_by="key_index"\} (\d+)$/m.exec(text)?.[1] ?? 0);
    };
    const known = await directCommits();
    let version = 1;
    for (let sent = 0; (await directCommits()) === known; sent++) {
      assert.ok(sent < 100, 'the key index is never there');
      version = Number(succeeded(await merge(table, [1], 'old')).version);
    }
    return version;
  }

  /** `faults`: of the manifests of the first commit, in their order. `second` is sent when the first manifest is under way. */
  async function overlapped(
    faults: readonly Fault[],
    first: () => Promise<Answer>,
    second: () => Promise<Answer>,
    whilePrepared: () => Promise<void> | void,
  ): Promise<readonly [Answer, Answer]> {
    const isUnderWay = Promise.withResolvers<void>();
    const isPrepared = Promise.withResolvers<void>();
    let attempts = 0;
    // A write whose outcome is not known is sent again after a tenth of a second, which a busy machine takes to prepare the second.
    const manifests = new Set<string>();
    proxy.faults = (request) => {
      if (isCommit(request)) {
        isUnderWay.resolve();
        manifests.add(request.path);
        attempts += 1;
        return faults[attempts - 1];
      }
      if (attempts > 0 && request.method === 'PUT' && request.kind === 'transaction') isPrepared.resolve();
      return undefined;
    };
    const one = first();
    await Promise.race([isUnderWay.promise, one.then((answer) => assert.fail(JSON.stringify(answer)))]);
    const other = second();
    await Promise.race([isPrepared.promise, other]);
    assert.equal(manifests.size, 1, 'its own manifest waits for the one before');
    await whilePrepared();
    const answers = [await one, await other] as const;
    proxy.faults = () => undefined;
    await proxy.delivered();
    return answers;
  }

  const stored = async (table: string): Promise<string[]> => {
    const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
    const rows = await (await database.openTable(table)).query().toArray();
    return rows.map(({ id, name }) => `${id}${name}`).sort();
  };

  test('finds the rows of that one, and is made after it (P1, P2, P4, P5)', async () => {
    const version = await opened('follows');
    const released = Promise.withResolvers<void>();
    const [first, second] = await overlapped(
      [{ kind: 'held', until: released.promise }],
      () => merge('follows', [1, 2, 7], 'a'),
      () => merge('follows', [2, 3, 7, 8], 'b'),
      () => released.resolve(),
    );
    assert.deepEqual(countsOf(first), [1, 2, version + 1]);
    assert.deepEqual(countsOf(second), [1, 3, version + 2]);
    assert.deepEqual(await stored('follows'), ['1a', '2b', '3b', '4old', '5old', '6old', '7b', '8b']);
    assert.deepEqual(countsOf(await merge('follows', [1, 2, 8], 'c')), [0, 3, version + 3]);
  });

  test('finds the ids of its rows, and of those that are new gives others than that one (P1)', async () => {
    const version = await opened('numbered', { new_table_enable_stable_row_ids: 'true' });
    const released = Promise.withResolvers<void>();
    const [first, second] = await overlapped(
      [{ kind: 'held', until: released.promise }],
      () => merge('numbered', [1, 2, 7], 'a'),
      () => merge('numbered', [8, 7, 2, 3], 'b'),
      () => released.resolve(),
    );
    assert.deepEqual([countsOf(first)[2], countsOf(second)[2]], [version + 1, version + 2]);
    const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
    const columns = ['id', '_rowid', '_row_created_at_version', '_row_last_updated_at_version'];
    const rows = await (await database.openTable('numbered')).query().select(columns).toArray();
    const found = rows.map((row) => columns.map((name) => Number(row[name]))).sort(([a = 0], [b = 0]) => a - b);
    assert.deepEqual(
      found.slice(0, 3).map(([id, rowId, created]) => [id, rowId, created]),
      [
        [1, 0, 1],
        [2, 1, 1],
        [3, 2, 1],
      ],
    );
    assert.deepEqual(found.slice(6), [
      [7, 6, version + 1, version + 2],
      [8, 7, version + 2, version + 2],
    ]);
  });

  test('is matched again where another program has that number, and retries get the first answers (P2, P6)', async () => {
    const version = await opened('overtaken');
    const released = Promise.withResolvers<void>();
    const merges = [
      () => merge('overtaken', [1, 5], 'a', { 'idempotency-key': 'first' }),
      () => merge('overtaken', [5, 6, 9], 'b', { 'idempotency-key': 'second' }),
    ] as const;
    const answers = await overlapped([{ kind: 'held', until: released.promise }], ...merges, async () => {
      const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
      await (await database.openTable('overtaken')).delete('id >= 5');
      released.resolve();
    });
    assert.deepEqual(answers.map(countsOf), [
      [1, 1, version + 2],
      [2, 1, version + 3],
    ]);
    assert.deepEqual(await stored('overtaken'), ['1a', '2old', '3old', '4old', '5b', '6b', '9b']);
    const retried = [await merges[0](), await merges[1]()];
    assert.deepEqual(retried.map(countsOf), answers.map(countsOf));
    assert.equal(countsOf(await merge('overtaken', [5, 9], 'c'))[2], version + 4);
  });

  test('is thrown away and made anew where it is not known whether that one is there (P1, P6)', async () => {
    const version = await opened('unknown');
    const late = Promise.withResolvers<void>();
    const cut = Array.from({ length: 5 }, () => ({ kind: 'cut before' }) as const);
    const [first, second] = await overlapped(
      [{ kind: 'late', until: late.promise }, ...cut],
      () => merge('unknown', [1, 7], 'zombie'),
      () => merge('unknown', [1, 2, 7], 'b').finally(() => late.resolve()),
      () => undefined,
    );
    assert.deepEqual([first.status, first.body.code], [500, 18], JSON.stringify(first.body));
    assert.deepEqual(countsOf(second), [1, 2, version + 2], 'after a fence');
    assert.deepEqual(await stored('unknown'), ['1b', '2b', '3old', '4old', '5old', '6old', '7b']);
  });

  test('follows that one where the store did not say that it is there (P4, P6)', async () => {
    const version = await opened('lost');
    proxy.delayMs = 200;
    const [first, second] = await overlapped(
      [{ kind: 'lost answer' }],
      () => merge('lost', [1, 7], 'a'),
      () => merge('lost', [1, 2, 7], 'b'),
      () => undefined,
    ).finally(() => {
      proxy.delayMs = 0;
    });
    assert.deepEqual(
      [countsOf(first), countsOf(second)],
      [
        [1, 1, version + 1],
        [0, 3, version + 2],
      ],
    );
    assert.deepEqual(await stored('lost'), ['1b', '2b', '3old', '4old', '5old', '6old', '7b']);
  });
});
