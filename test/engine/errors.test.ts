import assert from 'node:assert/strict';
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Field, Int32, Int64, Null, Schema, Struct, Table, vectorFromArray } from 'apache-arrow';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { type EngineCall, translateEngineError } from '#src/engine/lance/native/translate-errors.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { MergeSpec } from '#src/engine/port/merge-spec.ts';
import { isRefusal } from '#src/engine/port/refusal.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { tableOf } from '#test/fixtures/pairs.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const upsert = upsertOn('id');
const updateIf = (sql: string): MergeSpec => ({ ...upsert, whenMatchedUpdateAll: { filter: ownSql(sql) } });
const deleteIf = (sql: string): MergeSpec => ({ ...upsert, whenNotMatchedBySourceDelete: { filter: ownSql(sql) } });

/** What must never reach a caller: build paths, paths of this machine, names of crates. */
const leak = /cargo|rustc|\.rs\b|\/tmp|lance-|_versions|_merge_source_sentinel|LanceError|GenericFailure/;

async function refusal(run: () => Promise<unknown>): Promise<LancegateError> {
  const error = await run().then(
    () => assert.fail('expected a refusal'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof LancegateError, String(error));
  assert.doesNotMatch(error.message, leak);
  return error;
}

describe("the engine's errors arrive in our words, with what the caller needs and nothing else (P9)", () => {
  let engine: LanceEngine;
  let dataset: Dataset;
  const folder = temporaryFolder(after);
  before(async () => {
    engine = new LanceEngine({
      root: join(folder, 'tables'),
      rootOptions: {},
      scratchFolder: join(folder, 'scratch'),
      indexCacheBytes: 1 << 24,
      metadataCacheBytes: 1 << 24,
    });
    dataset = await createDataset(engine, 't.lance' as Location, ipcFile(tableOf([1, 'a'], [2, 'b'])), {});
  });

  const merge = (spec: MergeSpec, table = tableOf([1, 'x'], [3, 'c'])) => mergeInto(dataset, spec, ipcFile(table));
  const cases: [what: string, run: () => Promise<unknown>, kind: ErrorName, message: RegExp][] = [
    ['an update filter on a bare column', () => merge(updateIf("v = 'a'")), 'InvalidInput', /target\.v .*source\.v/],
    [
      'an update filter on an unknown column',
      () => merge(updateIf('target.zz = 1')),
      'TableColumnNotFound',
      /target\.zz$/,
    ],
    [
      'an update filter that is no SQL',
      () => merge(updateIf('target.v = = 1')),
      'InvalidInput',
      /Expected: an expression/,
    ],
    ['an update filter that is no condition', () => merge(updateIf('target.id + 1')), 'InvalidInput', /Cannot infer/],
    ['an unknown function', () => merge(updateIf('nofn(target.id)')), 'InvalidInput', /nofn/],
    [
      'a division by zero',
      () => merge(updateIf('1/(target.id-1) > 0')),
      'InvalidInput',
      /evaluated on a row: it divides by zero$/,
    ],
    ['a delete filter on an unknown column', () => merge(deleteIf('zz = 1')), 'TableColumnNotFound', /zz$/],
    [
      'a delete filter that fails on a row',
      () => merge(deleteIf('cast(v as int) = 1')),
      'InvalidInput',
      /a value does not fit the type it is converted to$/,
    ],
    ['a literal of another type', () => merge(deleteIf('id <> 1e300')), 'InvalidInput', /of type Int32 with a literal/],
    [
      'a filter that goes on after its end',
      () => merge(deleteIf('(id > 1 v)')),
      'InvalidInput',
      /not valid SQL: Expected: \), found: v$/,
    ],
    [
      'a text without its end',
      () => merge(updateIf("target.v = 'a")),
      'InvalidInput',
      /not valid SQL: Unterminated string literal$/,
    ],
    ['an unknown operator', () => merge(updateIf("target.v ~ 'a'")), 'InvalidInput', /do not support/],
    ['a placeholder, on which the engine panics', () => merge(deleteIf('id = $1')), 'InvalidInput', /placeholder/],
    ['an aggregate', () => merge(deleteIf('count(id) > 1')), 'InvalidInput', /aggregate/],
    ['an empty delete filter', () => merge(deleteIf(' ')), 'InvalidInput', /not valid SQL/],
    ['a subquery', () => merge(deleteIf('id in (select 1)')), 'InvalidInput', /subquery/],
    ['a count filter on an unknown column', () => dataset.countRows(ownSql('zz = 1')), 'TableColumnNotFound', /zz$/],
    [
      'a count filter on what only stands for a column',
      () => dataset.countRows(ownSql('_rowoffset < 2')),
      'InvalidInput',
      /takes _rowoffset only alone, with = or IN$/,
    ],
    ['a count filter that is no condition', () => dataset.countRows(ownSql('id + 1')), 'InvalidInput', /condition/],
    [
      'another column type',
      () => merge(upsert, new Table({ id: vectorFromArray([1n], new Int64()) })),
      'TableSchemaValidationError',
      /column id/,
    ],
    ['a key twice', () => merge(upsert, tableOf([1, 'p'], [1, 'q'])), 'InvalidInput', /same key \(id = 1\)/],
    ['a key column that is gone', () => merge({ ...upsert, on: ['zz'] }), 'TableColumnNotFound', /no column zz$/],
    [
      'a time limit',
      () => mergeInto(dataset, upsert, ipcFile(tableOf([1, 'x'])), 0),
      'TimedOut',
      /nothing was written/,
    ],
    [
      'bytes that are no Arrow',
      () => mergeInto(dataset, upsert, Buffer.from('ARROW1') as never),
      'InvalidInput',
      /cannot be read/,
    ],
    [
      'an unknown branch',
      () => engine.open({ location: 't.lance' as Location, branch: 'zz' as BranchName }),
      'TableBranchNotFound',
      /branch/,
    ],
    [
      'an unknown version',
      () => engine.open({ location: 't.lance' as Location, version: 99 }),
      'TableVersionNotFound',
      /version/,
    ],
    [
      'nothing at the location',
      () => engine.open({ location: 'x.lance' as Location }),
      'TableNotFound',
      /nothing is stored/,
    ],
    [
      'a bad branch name',
      () => dataset.branches.create('a..b' as BranchName, { branch: undefined, version: undefined }),
      'InvalidInput',
      /branch name/,
    ],
    [
      'a branch of an unknown branch',
      () => dataset.branches.create('b' as BranchName, { branch: 'zz' as BranchName, version: undefined }),
      'TableBranchNotFound',
      /branch/,
    ],
    [
      'a branch of an unknown version',
      () => dataset.branches.create('b' as BranchName, { branch: undefined, version: 99 }),
      'TableVersionNotFound',
      /version/,
    ],
    ['deleting an unknown branch', () => dataset.branches.delete('zz' as BranchName), 'TableBranchNotFound', /branch/],
  ];
  for (const [what, run, kind, message] of cases) {
    test(`${what}: ${kind}`, async () => {
      const error = await refusal(run);
      assert.equal(error.kind, kind, `${error.message} <- ${String((error.cause as Error)?.message)}`);
      assert.match(error.message, message);
    });
  }

  test('a source that matches one row twice is recognised as such, for the merge on nested keys', async () => {
    assert.equal(isRefusal(await refusal(() => merge(upsert, tableOf([1, 'p'], [1, 'q']))), 'ambiguous merge'), true);
    assert.equal(isRefusal(await refusal(() => merge(deleteIf('zz = 1'))), 'ambiguous merge'), false);
  });

  test('NULL in a column that forbids it is a schema error that names the column', async () => {
    const schema = new Schema([new Field('id', new Int32(), false)]);
    const strict = await createDataset(engine, 'strict.lance' as Location, ipcFile(new Table(schema, [])), {});
    const nulls = new Table({ id: vectorFromArray([1, null], new Int32()) });
    const error = await refusal(() => mergeInto(strict, upsert, ipcFile(nulls)));
    assert.equal(error.kind, 'TableSchemaValidationError');
    assert.match(error.message, /id/);
  });

  test('structs that are NULL, in a storage version that cannot hold them, are a schema error', async () => {
    const s = new Struct([new Field('x', new Int32(), true)]);
    const table = new Table({ s: vectorFromArray([null, { x: 1 }], s) });
    const options = { new_table_data_storage_version: '2.0' };
    const error = await refusal(() => createDataset(engine, 'structs.lance' as Location, ipcFile(table), options));
    assert.equal(error.kind, 'TableSchemaValidationError');
    assert.match(error.message, /^column s holds structs that are NULL/);
  });

  test('a struct that is NULL, with a field of type null, is not called one whose values do not fit its types', async () => {
    const type = new Struct([new Field('never', new Null(), true)]);
    const source = new Table({
      id: vectorFromArray([1, 2], new Int32()),
      s: vectorFromArray([null, { never: null }], type),
    });
    const location = 'null-struct.lance' as Location;
    const { kind, message } = await refusal(() => createDataset(engine, location, ipcFile(source), {}));
    assert.deepEqual([kind, /a struct that is NULL has a field of type null/.test(message)], ['InvalidInput', true]);
  });

  test('an unknown column in a filter is the same error where the key has an index', async () => {
    const indexed = await createDataset(engine, 'indexed.lance' as Location, ipcFile(tableOf([1, 'a'])), {});
    await createIndex(indexed, 'id');
    const error = await refusal(() => mergeInto(indexed, updateIf('target.zz = 1'), ipcFile(tableOf([1, 'x']))));
    assert.equal(error.kind, 'TableColumnNotFound');
    assert.match(error.message, /zz$/);
  });

  test('a full disk is one for what shows nothing before it is done, as a compaction in a shadow, and unknown for other maintenance', () => {
    const text = 'lance error: LanceError(IO): No space left on device (os error 28), /usr/local/cargo/x.rs:188:9';
    const kindOf = (call: EngineCall) => translateEngineError(call, new Error(text), 'a filter').kind;
    assert.deepEqual(
      (['merge', 'create', 'append', 'replace', 'compaction', 'local folder'] as const).map(kindOf),
      Array(6).fill('StorageFull'),
    );
    assert.deepEqual((['maintain', 'sync', 'branch'] as const).map(kindOf), Array(3).fill('Internal'));
  });

  test('a disk that is full and a limit that is reached are named by what Node says of them', () => {
    const kindOf = (code: string) =>
      translateEngineError('replace', Object.assign(new Error(`${code}: no, open '/x'`), { code }), '').kind;
    assert.deepEqual(['ENOSPC', 'EDQUOT'].map(kindOf), ['StorageFull', 'StorageFull']);
    assert.deepEqual(['EMFILE', 'ENFILE', 'EROFS', 'EACCES'].map(kindOf), Array(4).fill('StorageUnavailable'));
    assert.equal(kindOf('EIO'), 'Internal');
  });

  test('what Node says of a storage that takes nothing is named, in whatever way it says so', () => {
    const errorOf = (fields: object, message = 'x', call: EngineCall = 'replace') =>
      translateEngineError(call, Object.assign(new Error(message), fields), 'a filter');
    const refusals = [
      errorOf({ code: 'EROFS', syscall: 'open' }),
      errorOf({ code: 'EACCES', syscall: 'mkdir' }),
      errorOf({ code: 'EPERM', syscall: 'copyfile' }),
      errorOf({ code: 'ENOENT', syscall: 'mkdir' }),
      errorOf({ code: '', syscall: 'rm' }, ", Unknown error: Read-only file system '/d/x.json'"),
    ];
    for (const { kind } of refusals) assert.equal(kind, 'StorageUnavailable');
    assert.equal(errorOf({ code: 'ENOENT', syscall: 'open' }).kind, 'Internal');
    assert.equal(errorOf({ code: 'ENOENT', syscall: 'mkdir' }, 'x', 'sync').kind, 'Internal');
    assert.equal(errorOf({ code: 'EROFS', syscall: 'open' }, 'x', 'maintain').kind, 'StorageUnavailable');
    assert.equal(errorOf({ code: 'EACCES', syscall: 'open' }, 'x', 'maintain').kind, 'Internal');
    const deleting = (path: string) =>
      `lance error: LanceError(IO): Generic LocalFileSystem error: Unable to delete file /d/t.lance/${path}: Read-only file system (os error 30), /x.rs:1:9`;
    assert.equal(errorOf({}, deleting('_refs/branches/b.json'), 'branch').kind, 'StorageUnavailable');
    assert.equal(errorOf({}, deleting('tree/b/data/0.lance'), 'branch').kind, 'Internal');
  });

  const unavailable = [
    ['Too many open files (os error 24) at path "/d/t.lance/data/.tmpbALiAm"', 'too many files are open'],
    ['Too many open files in system (os error 23) at path "/d/t.lance/data/.tmpbALiAm"', 'too many files are open'],
    [
      'Generic N/A error: LanceError(IO): Generic LocalFileSystem error: Unable to open file /d/t.lance/data/0.lance: Too many open files (os error 24)',
      'too many files are open',
    ],
    [
      'Generic LocalFileSystem error: Unable to rename file: Read-only file system (os error 30)',
      'the storage is read-only',
    ],
    ['Permission denied (os error 13)', 'the storage denies access'],
    ['Operation not permitted (os error 1)', 'the storage denies access'],
  ] as const;
  for (const [says, why] of unavailable) {
    test(`"${says}" is named for merges and creates, which show nothing before they are done`, () => {
      const text = `lance error: LanceError(IO): ${says}, /usr/local/cargo/x.rs:990:34`;
      const errorOf = (call: EngineCall) => translateEngineError(call, new Error(text), 'a filter');
      for (const call of ['merge', 'create', 'append'] as const) {
        assert.equal(errorOf(call).kind, 'StorageUnavailable');
        assert.equal(errorOf(call).message, `${why}; nothing was written`);
      }
      for (const call of ['sync', 'branch', 'open'] as const) assert.equal(errorOf(call).kind, 'Internal');
      const isReadOnly = why === 'the storage is read-only';
      assert.equal(errorOf('maintain').kind, isReadOnly ? 'StorageUnavailable' : 'Internal');
    });
  }

  test('where the engine does not know whether it committed, the outcome is unknown (P6)', () => {
    for (const says of ['Too many open files (os error 24)', 'No space left on device (os error 28)']) {
      const unknown = 'Commit result for version 3 is unknown: the commit may or may not have been applied';
      const text = `${unknown}: LanceError(IO): Generic LocalFileSystem error: Unable to open file /d/3.manifest: ${says}`;
      assert.equal(translateEngineError('merge', new Error(text), 'a filter').kind, 'Internal');
    }
  });

  test('an object store that could not be reached again may have done what it was asked before (P6)', () => {
    const text =
      'LanceError(IO): Generic S3 error: Error after 3 retries in 9s, source: tcp connect error: Too many open files (os error 24)';
    assert.equal(translateEngineError('merge', new Error(text), 'a filter').kind, 'Internal');
  });

  test('a stored file that was spoilt is not called a fault of the source', async () => {
    const spoilt = await createDataset(engine, 'spoilt.lance' as Location, ipcFile(tableOf([1, 'a'], [2, 'b'])), {});
    await mergeInto(spoilt, upsert, ipcFile(tableOf([1, 'x'])));
    const data = join(folder, 'tables/spoilt.lance/data');
    for (const name of readdirSync(data))
      writeFileSync(join(data, name), Buffer.alloc(statSync(join(data, name)).size, 7));
    const error = await refusal(() => mergeInto(spoilt, upsert, ipcFile(tableOf([1, 'y']))));
    assert.equal(error.kind, 'Internal', String((error.cause as Error)?.message));
  });

  test('a read of a table whose files are gone fails in our words, also when the engine is behind a commit', async () => {
    const gone = await createDataset(engine, 'gone.lance' as Location, ipcFile(tableOf([1, 'a'])), {});
    const tracked = gone.liveRows() ?? assert.fail('there is no live-row map');
    tracked.advance(1);
    await gone.replaceRows(tracked, tracked.rowsOf(0), { file: ipcFile(tableOf([1, 'b'])), rows: 1 });
    rmSync(join(folder, 'tables/gone.lance'), { recursive: true });
    const columns = [{ name: 'id', expression: 'id' }];
    await refusal(() => Array.fromAsync(gone.select(columns, undefined)));
    await refusal(() => Array.fromAsync(gone.take([], columns)));
  });

  test('nothing of a refused merge stays behind (P1)', async () => {
    assert.equal(await dataset.version(), 1);
    assert.equal(await dataset.countRows(), 2);
  });
});
