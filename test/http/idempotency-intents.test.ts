/** What a keyed merge leaves in the catalog while it commits: the operations on real parts, with a record that can fail. */
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Int32, vectorFromArray } from 'apache-arrow';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import type { Catalog, WriteIntent } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { createTable } from '#src/create/request.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Engine } from '#src/engine/port/engine.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { Shadow } from '#src/engine/port/shadow.ts';
import { answeredOnce, Idempotency } from '#src/idempotency/idempotency.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { type ErrorName, LancegateError, storageFull } from '#src/kernel/errors.ts';
import type { BranchName, IdempotencyKey, ObjectName } from '#src/kernel/ids.ts';
import type { RequestScope } from '#src/kernel/request-scope.ts';
import { KeyHasher } from '#src/keys/key-hasher.ts';
import { mergeRows } from '#src/merge/request.ts';
import { createBranch } from '#src/operations/branches/create-branch.ts';
import { createIndex } from '#src/operations/indexes/create-index.ts';
import { createNamespace } from '#src/operations/namespaces/create-namespace.ts';
import { dropNamespace } from '#src/operations/namespaces/drop-namespace.ts';
import { startOperations } from '#src/operations/operations.ts';
import { cloneTable } from '#src/operations/tables/clone-table.ts';
import { countRows } from '#src/operations/tables/count-rows.ts';
import { declareTable } from '#src/operations/tables/declare-table.ts';
import { deregisterTable, dropTable } from '#src/operations/tables/drop-table.ts';
import { registerTable } from '#src/operations/tables/register-table.ts';
import { renameTable } from '#src/operations/tables/rename-table.ts';
import { EmbeddedOwners } from '#src/table/table-owners.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { inChunks, sourceFrom } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { stream } from './rows.ts';

const notAsked = () => Promise.reject(new Error('this is never asked for'));

const table = { namespace: [], name: 't' as ObjectName };
const creation = {
  table,
  mode: 'create',
  ...{ properties: undefined, storageOptions: {}, rules: {} },
  requireDescribe: () => undefined,
} as const;
const scope: RequestScope = {
  requestId: 'r',
  principal: { subject: 'ann', issuer: 'lancegate', scopes: [], groups: [] },
  signal: new AbortController().signal,
  remainingMs: () => undefined,
};

/** A row without a key is inserted each time it is merged. */
function contentOf(n: number, key: string) {
  const bytes = stream({ id: vectorFromArray([null], new Int32()), n: [n] });
  const digest = createHash('sha256').update(bytes).digest('hex');
  const idempotency = { key: key as IdempotencyKey, bodyDigest: () => Promise.resolve(digest) };
  return { source: sourceFrom(inChunks(bytes)), idempotency };
}

const keyOnly = (key: string) => ({ key: key as IdempotencyKey, bodyDigest: () => Promise.resolve('no body') });

const indexOnN = {
  ...{ table, branch: undefined, column: parseFieldPath('n'), name: undefined, options: btreeOn('n').options },
  ...{ rowsPerPartition: undefined, isReplacing: false },
};

const flags = { whenMatchedUpdateAll: true, whenNotMatchedInsertAll: true, whenNotMatchedBySourceDelete: false };
const merging = { flags, useIndex: true, rules: {}, requireAction: () => undefined };
const upsert = { table, branch: undefined, on: [parseFieldPath('id')], ...merging };

type Faults = Partial<Pick<Catalog, 'recordTransactions' | 'recordIntents' | 'closeBranch' | 'reserveRoom'>>;

async function start(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const catalog = await openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });
  const faults: { now: Faults } = { now: {} };
  const faulty = new Proxy<Catalog>(catalog, {
    get: (target, name: keyof Catalog) => (faults.now as Partial<Catalog>)[name] ?? target[name].bind(target),
  });
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 24,
    metadataCacheBytes: 1 << 24,
  });
  const engineFaults: { merge: Shadow['change'] | undefined } = { merge: undefined };
  const open: Engine['open'] = async (request) => {
    const dataset = await engine.open(request);
    const shadow: Dataset['shadow'] = async () => {
      const made = await dataset.shadow();
      const change: Shadow['change'] = (...given) => (engineFaults.merge ?? made.change.bind(made))(...given);
      return replacing<Shadow>(made, { change });
    };
    return replacing<Dataset>(dataset, { shadow });
  };
  const { deps, close } = await startOperations({
    audit: { requestEnded: () => undefined },
    catalog: faulty,
    engine: replacing<Engine>(engine, { open }),
    owners: new EmbeddedOwners(),
    whileStorageAnswers: (read) => read(),
    clock: systemClock,
    newId: randomUUID,
    queries: { count: notAsked, query: notAsked, changes: notAsked, explain: notAsked },
    logger: createLogger({ level: 'error', format: 'json', destination: { write: () => undefined } }),
    metrics: new Metrics(),
    managesVersions: false,
    maxWaitingPerTable: 100,
    ...{ maxOpenDatasets: 10, principalShare: 0.5 },
    ...{ consumerRetentionMs: 60_000, keyMemoryBytes: 1 << 24, keyHasher: new KeyHasher(new Uint32Array(8)) },
    ...{ idempotencyKeptMs: 60_000, dropRetentionMs: 0 },
    maintenanceLimits: { isAutomatic: false, retentionMs: 60_000, indexFromRows: 1_000 },
  });
  t.after(async () => {
    await close();
    await catalog.close();
  });
  await createTable(deps)({ ...creation, ...contentOf(0, 'create') }, scope);
  return {
    catalog,
    faults,
    engineFaults,
    close,
    deps,
    settle: () => deps.idempotency.settle(),
    drop: (key: string) => answeredOnce('drop_table', dropTable)(deps)({ table, idempotency: keyOnly(key) }, scope),
    createIndex: (key: string) => createIndex(deps)({ ...indexOnN, idempotency: keyOnly(key) }, scope),
    merge: (n: number, key = `k${n}`, rules = {}) => mergeRows(deps)({ ...upsert, rules, ...contentOf(n, key) }, scope),
    count: () => countRows(deps)({ table, branch: undefined, version: undefined, predicate: undefined }, scope),
  };
}

/** Another process with the same catalog. */
const elsewhereOf = <Deps extends Omit<ConstructorParameters<typeof Idempotency>[0], 'idempotencyKeptMs'>>(
  deps: Deps,
) => ({
  ...deps,
  idempotency: new Idempotency({ ...deps, idempotencyKeptMs: 60_000 }),
});

const refusedAs = (kind: ErrorName) => (error: unknown) => error instanceof LancegateError && error.kind === kind;
const brokenDisk = () => Promise.reject(new LancegateError('Internal', 'a full disk'));

test('a merge whose record cannot be written is not acknowledged, and its retry is not applied (P3, P6)', async (t) => {
  const { merge, count, faults, catalog } = await start(t);
  faults.now = { recordTransactions: brokenDisk };
  await assert.rejects(merge(1), refusedAs('Internal'));
  faults.now = {};
  await assert.rejects(merge(1), refusedAs('OutcomeUnknown'));
  await assert.rejects(merge(2, 'k1'), refusedAs('InvalidInput'));
  assert.equal(await count(), 2);
  assert.equal((await catalog.writeIntents()).length, 1);
});

for (const rules of [{}, { version_column: 'n', on_invalid: 'report' }])
  test(`a merge by ${Object.keys(rules).length} rules whose record was lost gets its first answer once the next start has found its commit (P6)`, async (t) => {
    const { merge, count, faults, catalog, settle } = await start(t);
    const { transactionId: _, isReplay: __, ...usual } = await merge(1, 'k1', rules);
    faults.now = { recordTransactions: brokenDisk };
    await assert.rejects(merge(2, 'k2', rules), refusedAs('Internal'));
    faults.now = {};
    await settle();
    const { transactionId, isReplay, ...first } = await merge(2, 'k2', rules);
    assert.deepEqual([isReplay, first], [true, { ...usual, version: usual.version + 1 }]);
    assert.equal((await catalog.findTransaction(transactionId))?.version, first.version);
    assert.deepEqual(await catalog.writeIntents(), []);
    assert.equal(await count(), 3);
  });

test('an index whose record was lost is not built again: its retry gets the first answer once its commit was found (P6)', async (t) => {
  const { createIndex, faults, catalog, settle } = await start(t);
  faults.now = { recordTransactions: brokenDisk };
  await assert.rejects(createIndex('i'), refusedAs('Internal'));
  faults.now = {};
  await settle();
  const { isReplay, ...first } = await createIndex('i');
  assert.equal(isReplay, true);
  assert.ok('transactionId' in first);
  const { transactionId, ...counts } = first;
  const noRows = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };
  assert.deepEqual(counts, { ...noRows, version: 2, numAttempts: 1 });
  assert.equal((await catalog.findTransaction(transactionId))?.operation, 'create_index');
  assert.deepEqual(await catalog.writeIntents(), []);
});

test('a merge that found the disk full has written nothing, and its retry is applied once there is room (P6)', async (t) => {
  const { merge, count, engineFaults, catalog } = await start(t);
  engineFaults.merge = () => Promise.reject(storageFull(undefined, {}));
  await assert.rejects(merge(1), refusedAs('StorageFull'));
  assert.deepEqual(await catalog.writeIntents(), []);
  engineFaults.merge = undefined;
  await merge(2);
  await merge(1);
  assert.equal(await count(), 3);
});

test('a merge whose record finds the disk full does not say that nothing was written (P6)', async (t) => {
  const { merge, faults } = await start(t);
  faults.now = { recordTransactions: () => Promise.reject(storageFull(undefined, {})) };
  await assert.rejects(merge(1), refusedAs('Internal'));
});

test('a branch whose answer could not be recorded is not said not to be made (P6)', async (t) => {
  const { deps, faults } = await start(t);
  const branch = { table, fromBranch: undefined, fromVersion: undefined };
  const makeBranch = (name: string) =>
    answeredOnce('create_branch', createBranch)(deps)(
      { ...branch, name: name as BranchName, idempotency: keyOnly(name) },
      scope,
    );
  for (const kind of ['StorageFull', 'CatalogUnavailable', 'ConcurrentModification'] as const) {
    faults.now = { recordTransactions: () => Promise.reject(new LancegateError(kind, 'nothing was written')) };
    await assert.rejects(makeBranch(kind), refusedAs('Internal'));
    faults.now = {};
    await assert.rejects(makeBranch(kind), refusedAs('TableBranchAlreadyExists'));
  }
  assert.equal((await makeBranch('b')).isReplay, false);
  assert.equal((await makeBranch('b')).isReplay, true);
});

test('a change of a name is recorded together with its answer, so no end of the process comes between them (P6)', async (t) => {
  const { deps, faults } = await start(t);
  const [named, other, renamed, cloned] = ['n', 'other', 'renamed', 'cloned'].map((name) => name as ObjectName);
  const of = (name = named!) => ({ namespace: [], name });
  const [properties, allowed] = [{ owner: 'ann' }, () => true];
  const register = { table, location: 't.lance', mode: 'create', properties, mayAdopt: allowed } as const;
  const source = { sourceLocation: 't.lance', sourceVersion: undefined, sourceTag: undefined, mayClone: allowed };
  const namespace = { namespace: [named!], mode: 'create', properties, requireDescribe: () => undefined } as const;
  const dropped = { mode: 'fail', behavior: 'restrict', mayDrop: allowed, dropped: () => undefined } as const;
  const dropTree = (all: typeof deps) => dropNamespace(all, dropTable(all));
  type Idempotent = ReturnType<typeof keyOnly>;
  const changes = {
    createNamespace: (idempotency: Idempotent) =>
      answeredOnce('create_namespace', createNamespace)(deps)({ ...namespace, idempotency }, scope),
    replaceNamespace: (idempotency: Idempotent) =>
      answeredOnce('create_namespace', createNamespace)(deps)({ ...namespace, mode: 'overwrite', idempotency }, scope),
    dropNamespace: (idempotency: Idempotent) =>
      answeredOnce('drop_namespace', dropTree)(deps)({ ...dropped, namespace: [named!], idempotency }, scope),
    declare: (idempotency: Idempotent) =>
      answeredOnce('declare_table', declareTable)(deps)(
        { table: of(other), properties, location: undefined, idempotency },
        scope,
      ),
    rename: (idempotency: Idempotent) =>
      answeredOnce('rename_table', renameTable)(deps)({ table: of(other), to: of(renamed), idempotency }, scope),
    deregister: (idempotency: Idempotent) =>
      answeredOnce('deregister_table', deregisterTable)(deps)({ table, idempotency }, scope),
    register: (idempotency: Idempotent) =>
      answeredOnce('register_table', registerTable)(deps)({ ...register, idempotency }, scope),
    clone: (idempotency: Idempotent) =>
      answeredOnce('clone_table', cloneTable)(deps)({ ...source, table: of(cloned), idempotency }, scope),
    drop: (idempotency: Idempotent) => answeredOnce('drop_table', dropTable)(deps)({ table, idempotency }, scope),
  };
  faults.now = { recordTransactions: brokenDisk };
  for (const [name, change] of Object.entries(changes)) {
    const first = await change(keyOnly(name));
    const again = await change(keyOnly(name));
    const [made, replayed] = [first, again].map(({ result }) => JSON.stringify(result));
    assert.deepEqual([first.isReplay, again.isReplay, replayed], [false, true, made], name);
  }
});

test('a drop with a key, whose answer would find no room, is not done (P6)', async (t) => {
  const { drop, faults, catalog } = await start(t);
  faults.now = {
    reserveRoom: () => {
      throw storageFull(undefined, {});
    },
  };
  await assert.rejects(drop('d'), refusedAs('StorageFull'));
  assert.equal((await catalog.findTable(table))?.state, 'created');
});

test('a write whose record would find no room is refused, and the next write of its branch is not held up (P1)', async (t) => {
  const { merge, count, faults } = await start(t);
  faults.now = {
    reserveRoom: () => {
      throw storageFull(undefined, {});
    },
  };
  await assert.rejects(merge(1), refusedAs('StorageFull'));
  faults.now = {};
  await merge(2);
  assert.equal(await count(), 2);
});

test('on a full disk the service ends in order all the same, and leaves its branches to the next start (P1)', async (t) => {
  const { merge, faults, catalog, close } = await start(t);
  await merge(1);
  faults.now = { closeBranch: brokenDisk };
  await close();
  faults.now = {};
  assert.equal((await catalog.recoveryMarks()).length, 1);
});

test('a commit that is recorded had a write intent on top of the version before it; afterwards it has none (P6)', async (t) => {
  const { merge, faults, catalog } = await start(t);
  const seenIntents: (readonly WriteIntent[])[] = [];
  faults.now = {
    recordTransactions: async (records, answers) => {
      seenIntents.push(await catalog.writeIntents());
      await catalog.recordTransactions(records, answers);
    },
  };
  await merge(1);
  await merge(2);
  const seen = seenIntents.map((commits) => commits.map(({ key, baseVersion }) => [key, baseVersion]));
  assert.deepEqual(seen, [[['k1', 1]], [['k2', 2]]]);
  assert.deepEqual(await catalog.writeIntents(), []);
});

test('the write intents of merges that share a commit are recorded together', async (t) => {
  const { merge, count, faults, catalog } = await start(t);
  const groups: number[] = [];
  faults.now = {
    recordIntents: async (commits) => {
      groups.push(commits.length);
      await catalog.recordIntents(commits);
    },
  };
  const all = Array.from({ length: 12 }, (_, i) => i + 1);
  await Promise.all(all.map((n) => merge(n)));
  assert.equal(
    groups.reduce((sum, size) => sum + size, 0),
    all.length,
  );
  assert.ok(groups.length < all.length, `${groups.length} groups of intents`);
  assert.equal(await count(), all.length + 1);
});

test('a merge whose write intent cannot be recorded is not made', async (t) => {
  const { merge, count, faults } = await start(t);
  faults.now = { recordIntents: brokenDisk };
  await assert.rejects(merge(1), refusedAs('Internal'));
  assert.equal(await count(), 1);
  faults.now = {};
  assert.equal((await merge(1)).isReplay, false);
  assert.equal((await merge(1)).isReplay, true);
  assert.equal(await count(), 2);
});

for (const [what, order] of [
  ['finds it done', 'before'],
  ['cannot record its own', 'after'],
] as const) {
  test(`of two processes that work for one key, the one that ${what} gets the answer of the other (P6)`, async (t) => {
    const { deps: here } = await start(t);
    const elsewhere = elsewhereOf(here);
    const namespace = ['n' as ObjectName];
    const mode = order === 'before' ? 'create' : 'exist_ok';
    const request = {
      namespace,
      mode,
      properties: { owner: 'ann' },
      idempotency: keyOnly('k'),
      requireDescribe: () => undefined,
    } as const;
    const asked: typeof createNamespace = (deps) => async (command) => {
      const work = () => createNamespace(deps)(command);
      const other = () => answeredOnce('create_namespace', createNamespace)(elsewhere)(request, scope);
      if (order === 'before') await other();
      const done = await work();
      await other();
      return done;
    };
    const once = answeredOnce('create_namespace', asked)(here);
    assert.deepEqual(await once(request, scope), { result: { owner: 'ann' }, isReplay: true });
    const { result } = await once(request, scope);
    assert.deepEqual(result, { owner: 'ann' });
  });
}

test('of two processes that work for one key, the one with another request is not told what the other did (P6)', async (t) => {
  const { deps: here } = await start(t);
  const elsewhere = elsewhereOf(here);
  const namespace = ['n' as ObjectName];
  const request = {
    namespace,
    mode: 'overwrite',
    idempotency: keyOnly('k'),
    requireDescribe: () => undefined,
  } as const;
  const asked: typeof createNamespace = (deps) => async (command) => {
    const done = await createNamespace(deps)(command);
    await answeredOnce('create_namespace', createNamespace)(elsewhere)(
      { ...request, properties: { owner: 'bob' } },
      scope,
    );
    return done;
  };
  const once = answeredOnce('create_namespace', asked)(here);
  await assert.rejects(once({ ...request, properties: { owner: 'ann' } }, scope), refusedAs('Internal'));
});
