/**
 * What a shadow makes of an operation of the engine is what the engine makes of it on the table itself: rows, manifest, indexes
 * and recorded transaction. With `LANCEGATE_PARITY` set to a folder, the tables stay there for `test/clients/shadow_parity.py`,
 * which has other versions of Lance read and write them.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { NativeTable } from '#src/engine/lance/native/native.ts';
import { buildNativeIndex } from '#src/engine/lance/native/native-index.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { branchFolder, listVersions, manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import { NotReplaceable } from '#src/lance-format/manifest/replaceable.ts';
import * as messages from '#src/lance-format/messages.ts';
import { decode } from '#src/lance-format/protobuf.ts';
import { liftedVersion } from '#src/lance-format/shadow/lifted-version.ts';
import { shadowManifest } from '#src/lance-format/shadow/shadow-manifest.ts';
import { transactionsBetween } from '#src/lance-format/transaction/transaction.ts';
import { temporaryFolder, temporaryFolderInMemory } from '#test/fixtures/temporary-folder.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import {
  type AnyTable,
  build,
  contentOf,
  file,
  kinds,
  laterOn,
  newestOf,
  nullColumn,
  open,
  partial,
  upsert,
} from './parity-tables.ts';
import { plainManifest } from './plain-manifest.ts';

type Operation = (table: AnyTable) => Promise<unknown>;

const updates = (table: Pick<NativeTable, 'mergeInsert'>) => table.mergeInsert(['id']).whenMatchedUpdateAll();

const operations: Record<string, Operation> = {
  upsert: (table) => upsert(table).execute(file([5, 1_500, 9_000, 9_001], 'up')),
  'an upsert without the index': (table) =>
    upsert(table)
      .useIndex(false)
      .execute(file([5, 1_500, 9_000], 'up')),
  'an upsert of a whole fragment': (table) => upsert(table).execute(file(numbersFrom(2_000, 2_500), 'up')),
  'inserts only': (table) =>
    table
      .mergeInsert(['id'])
      .whenNotMatchedInsertAll()
      .execute(file([5, 9_000], 'ins')),
  'updates only': (table) => updates(table).execute(file([5, 7, 9_000], 'upd')),
  'an upsert with a filter': (table) =>
    table
      .mergeInsert(['id'])
      .whenMatchedUpdateAll(ownSql('target.id > 6'))
      .whenNotMatchedInsertAll()
      .execute(file([5, 7, 9_000], 'filtered')),
  'deletes by source': (table) =>
    upsert(table)
      .whenNotMatchedBySourceDelete(ownSql('n < 100'))
      .execute(file([5, 7, 9_000], 'source')),
  'some columns': (table) => updates(table).execute(partial(5, 7, 1_500)),
  'some columns and inserts': (table) => upsert(table).execute(partial(5, 7, 9_000)),
  'a merge that matches nothing': (table) => updates(table).execute(file([99_999], 'none')),
  append: (table) => table.add(file([70_000, 70_001], 'app'), 'append'),
  'a delete': (table) => table.delete(ownSql('id = 8 OR (id > 1400 AND id < 1410)')),
  'a delete of whole fragments': (table) => table.delete(ownSql('id >= 1000 AND id < 2000')),
  'a delete of all rows': (table) => table.delete(ownSql('true')),
  'a delete by row id': (table) => table.delete(ownSql('_rowid IN (11, 12, 4294967300)')),
  'an update': (table) => table.update(ownSql('id = 9 OR id = 1501'), [['v', "'upd'"]]),
  'an update of all rows': (table) => table.update(ownSql('true'), [['n', 'n + 1']]),
  'an update that matches nothing': (table) => table.update(ownSql('id = -1'), [['n', '0']]),
  'an update of the indexed column': (table) => table.update(ownSql('id = 7'), [['id', 'id + 100000']]),
  'new columns of NULL': (table) => table.addColumnsWithSchema(nullColumn),
  'new columns by SQL': (table) =>
    table.addColumns([
      { name: 'twice', valueSql: 'id * 2' },
      { name: 'both', valueSql: "concat(v, '!')" },
    ]),
  'a column that is renamed': (table) => table.alterColumns([{ path: 'v', rename: 'w' }]),
  'an indexed column that allows NULL': (table) => table.alterColumns([{ path: 'id', nullable: true }]),
  'a column of another type': (table) => table.alterColumns([{ path: 'n', dataType: 'float' }]),
  'a column of another type and name': (table) =>
    table.alterColumns([
      { path: 'n', dataType: 'float', rename: 'm' },
      { path: 'v', rename: 'w' },
    ]),
  'a dropped column': (table) => table.dropColumns(['n']),
  'dropped columns': (table) => table.dropColumns(['n', 'v']),
  'metadata of a column': (table) => table.updateFieldMetadata([{ path: 'n', metadata: { unit: 'm', other: 'x' } }]),
  'a primary key': (table) => table.setUnenforcedPrimaryKey(['id']),
  'an overwrite': (table) => table.add(file([1, 2, 9_000], 'over'), 'overwrite'),
  'an overwrite with other columns': (table) => table.add(partial(1, 2, 9_000), 'overwrite'),
  'a new index': (table) => buildNativeIndex(table, btreeOn('n')),
  'an index built anew': (table) => buildNativeIndex(table, btreeOn('id')),
};

/** What an index is on, with the table's own. */
const ofIndexed: Record<string, Operation> = {
  'a dropped index': (table) => table.dropIndex('id_idx'),
  'the indexed column dropped': (table) => table.dropColumns(['id']),
  'the indexed column renamed': (table) => table.alterColumns([{ path: 'id', rename: 'key' }]),
};

const ofPlain: Record<string, Operation> = {
  'the key of another type': (table) => table.alterColumns([{ path: 'id', dataType: 'int64' }]),
};

/** Fields of a transaction. */
const { overwrite, createIndex, merge, update } = messages.transaction.fields;

/** With the operation that their only version records. */
const sequences: Record<string, { steps: readonly (string | Operation)[]; recorded: number }> = {
  'several changes of rows': {
    steps: ['upsert', 'some columns', 'a delete', 'append', 'an update'],
    recorded: update.number,
  },
  'rows and columns': {
    steps: ['upsert', 'new columns by SQL', 'a delete', 'a column that is renamed', 'a delete by row id'],
    recorded: overwrite.number,
  },
  'columns in place and a new index': {
    steps: ['some columns', 'a new index', 'a delete of whole fragments'],
    recorded: overwrite.number,
  },
  'columns and metadata': {
    steps: ['new columns by SQL', 'a column that is renamed', 'metadata of a column', 'a primary key'],
    recorded: merge.number,
  },
  'new columns and an index': {
    steps: ['new columns of NULL', 'new columns by SQL', 'a new index'],
    recorded: overwrite.number,
  },
  'columns that come and go': {
    steps: ['new columns by SQL', 'a dropped column', 'a column that is renamed'],
    recorded: overwrite.number,
  },
  'a column of another type and an index': {
    steps: ['a column of another type', 'a new index'],
    recorded: overwrite.number,
  },
  'several indexes': { steps: ['a new index', 'an index built anew'], recorded: createIndex.number },
  'an overwrite and appends': { steps: ['an overwrite', 'append', 'append'], recorded: overwrite.number },
  'rows and an overwrite': { steps: ['append', 'an overwrite', 'a delete', 'a new index'], recorded: overwrite.number },
  'all rows deleted and others appended': { steps: ['a delete of all rows', 'append'], recorded: update.number },
  'a key of another type, and its index': {
    steps: [
      async (table) => {
        for (const { name } of await table.listIndices()) await table.dropIndex(name);
      },
      (table) => table.alterColumns([{ path: 'id', dataType: 'int64' }]),
      'an index built anew',
    ],
    recorded: overwrite.number,
  },
};

async function inShadow(dataset: string, operation: Operation, later: number): Promise<void> {
  const original = newestOf(dataset);
  const version = (listVersions(join(dataset, '_versions')).at(-1) ?? 0) + later;
  const shadow = join(dataset, 'lancegate=staging', 't.lance');
  mkdirSync(join(shadow, '_versions'), { recursive: true });
  const manifest = shadowManifest(original, { folder: dataset, version });
  writeFileSync(join(shadow, '_versions', manifestNames(version)[0]), manifest);
  await operation(await open(dirname(shadow)));
  const newest = listVersions(join(shadow, '_versions')).at(-1) ?? 0;
  const steps = transactionsBetween(join(shadow, '_versions'), version, newest).filter((step) => step !== undefined);
  const made = { transactionId: randomUUID(), committedAtMs: Date.now() };
  const lifted = liftedVersion({ original, result: newestOf(shadow), steps, ...made });
  for (const { from, to } of lifted.files) {
    mkdirSync(dirname(join(dataset, to)), { recursive: true });
    renameSync(join(shadow, from), join(dataset, to));
  }
  writeFileSync(join(dataset, '_transactions', lifted.transactionFile), lifted.transaction);
  writeFileSync(join(dataset, '_versions', manifestNames(lifted.version)[0]), lifted.bytes);
  rmSync(dirname(shadow), { recursive: true });
}

type Result = ReturnType<typeof plainManifest> & { readonly all: string[]; readonly found: string[] };

/** Columns, metadata, largest fragment id, settings and what indexes cover: all that does not depend on the number of versions. */
function inAnyVersion({ all, found, manifest, indexes }: Result) {
  return {
    all,
    found,
    manifest: manifest.filter((field) => /^(1|5|11|14|15|16|19|20):/.test(field)),
    indexes: indexes?.length,
  };
}

const keptFolder = process.env.LANCEGATE_PARITY;

for (const [name, kind] of Object.entries(kinds)) {
  describe(`on ${name}, a shadow makes what the engine makes`, () => {
    const later = laterOn[name] ?? assert.fail(name);
    const saved = join(temporaryFolderInMemory(after), 'saved');
    const folder = keptFolder === undefined ? join(dirname(saved), 'ö %') : join(keptFolder, name);
    before(async () => {
      mkdirSync(folder, { recursive: true });
      await build(folder, kind);
      cpSync(folder, saved, { recursive: true });
    });

    /** A branch names the folder of main by its path, so every run is in the same place. */
    async function resultOf(run: (dataset: string) => Promise<unknown>, kept: string) {
      rmSync(folder, { recursive: true });
      cpSync(saved, folder, { recursive: true });
      const dataset = branchFolder(join(folder, 't.lance'), kind.branch);
      const base = kind.hasRowIds ? parseManifest(newestOf(dataset)).version : undefined;
      await run(dataset);
      const table = await open(folder, kind.branch);
      const all = await contentOf(table, undefined, base);
      const key = ['id', 'key'].find((name) => all[0]?.includes(`"${name}":`));
      const found =
        key === undefined ? [] : await contentOf(table, ownSql(`${key} < 20 OR ${key} IN (1500, 9000)`), base);
      if (keptFolder !== undefined) cpSync(folder, join(keptFolder, 'results', name, kept), { recursive: true });
      return { all, found, ...plainManifest(newestOf(dataset)) };
    }

    for (const [title, operation] of Object.entries({ ...operations, ...(kind.isIndexed ? ofIndexed : ofPlain) })) {
      test(`of ${title}`, async () => {
        const ofEngine = await resultOf(async () => operation(await open(folder, kind.branch)), `${title}/engine`);
        const ofShadow = await resultOf((dataset) => inShadow(dataset, operation, later), `${title}/shadow`);
        assert.deepEqual(ofShadow, ofEngine);
      });
    }

    for (const [title, { steps, recorded }] of Object.entries(sequences)) {
      test(`of ${title}, in one version`, async () => {
        const all: Operation = async (table) => {
          for (const step of steps) await (typeof step === 'string' ? operations[step]?.(table) : step(table));
        };
        const ofEngine = await resultOf(async () => all(await open(folder, kind.branch)), `${title}/engine`);
        const ofShadow = await resultOf((dataset) => inShadow(dataset, all, later), `${title}/shadow`);
        assert.deepEqual(inAnyVersion(ofShadow), inAnyVersion(ofEngine));
        assert.deepEqual(recordedIn(ofShadow), [recorded]);
      });
    }
  });
}

/** The fields of the operations that a transaction has. */
const recordedIn = ({ transaction: fields = [] }: ReturnType<typeof plainManifest>): readonly number[] =>
  fields.filter((field) => /^1\d\d:/.test(field)).map((field) => Number(field.slice(0, 3)));

test('several upserts by a primary key are recorded as an overwrite, since an update lists the keys of one (P2)', async () => {
  const folder = temporaryFolder(after);
  const dataset = join(folder, 't.lance');
  await build(folder, { isIndexed: false, isChanged: false });
  await (await open(folder)).setUnenforcedPrimaryKey(['id']);
  const upserts = (...ids: number[]) =>
    inShadow(
      dataset,
      async (table) => {
        for (const id of ids) await upsert(table).execute(file([id], 'new'));
      },
      0,
    );
  await upserts(70_000);
  assert.deepEqual(recordedIn(plainManifest(newestOf(dataset))), [update.number]);
  await upserts(70_001, 70_002);
  assert.deepEqual(recordedIn(plainManifest(newestOf(dataset))), [overwrite.number]);
});

test('several changes of rows are recorded with the columns that one of them wrote in place (P1)', async () => {
  const updateOf = async (operation: Operation) => {
    const folder = temporaryFolder(after);
    const dataset = join(folder, 't.lance');
    await build(folder, { isIndexed: true, isChanged: false });
    await inShadow(dataset, operation, 0);
    const { transaction = Buffer.of() } = sectionsOf(newestOf(dataset));
    const { fieldsModified = [], mode } = decode(messages.update, decode(messages.transaction, transaction).update!);
    return { columns: fieldsModified.flat().sort(), mode };
  };
  const inPlace: Operation = (table) => updates(table).execute(partial(5, 7, 1_500));
  const alone = await updateOf(inPlace);
  assert.deepEqual([alone.columns.length, alone.mode], [2, 1]);
  const several = await updateOf(async (table) => {
    await table.delete(ownSql('id = 9'));
    await inPlace(table);
  });
  assert.deepEqual(several, alone);
});

/** What another program began before ours, and commits after it. It may be refused. */
const theirs: Record<string, Operation> = {
  append: (table) => table.add(file([60_000], 'them'), 'append'),
  'an update': (table) => table.update(ownSql('id = 9 OR id = 1501'), [['n', 'n + 1000']]),
  'a delete': (table) => table.delete(ownSql('id = 9 OR id = 1501')),
  'an upsert': (table) => upsert(table).execute(file([5, 60_000], 'them')),
  'some columns': (table) => updates(table).execute(partial(5, 7, 1_500)),
  'a new index': (table) => buildNativeIndex(table, btreeOn('n')),
  'another column': (table) => table.addColumns([{ name: 'theirs', valueSql: 'n + 1' }]),
  'a dropped column': (table) => table.dropColumns(['v']),
  'metadata of a column': (table) => table.updateFieldMetadata([{ path: 'n', metadata: { unit: 'km' } }]),
  'a compaction': (table) => table.optimize(0, false),
};

describe('another program that began before several steps is refused, or its change comes on top of theirs (P1, P2)', () => {
  const saved = join(temporaryFolderInMemory(after), 'saved');
  const folder = join(dirname(saved), 'folder');
  const dataset = join(folder, 't.lance');
  before(async () => {
    mkdirSync(folder, { recursive: true });
    await build(folder, { isIndexed: true, isChanged: true });
    cpSync(folder, saved, { recursive: true });
  });

  const aloneRows = async (ours: Operation): Promise<number> => {
    rmSync(folder, { recursive: true });
    cpSync(saved, folder, { recursive: true });
    await inShadow(dataset, ours, 0);
    return (await contentOf(await open(folder))).length;
  };

  // Of what another program meets, the operation that the version records decides. One that has rows changes them too.
  const composed = ['rows and columns', 'columns and metadata', 'several indexes', 'an overwrite and appends'];
  test('are of every operation that a version of several steps records, but an update', () => {
    const recorded = (titles: readonly string[]) => new Set(titles.map((title) => sequences[title]?.recorded));
    assert.deepEqual(recorded(composed).add(update.number), recorded(Object.keys(sequences)));
  });

  for (const title of composed) {
    const { steps } = sequences[title] ?? assert.fail(title);
    test(`of ${title}`, async () => {
      const ours: Operation = async (table) => {
        for (const step of steps) await (typeof step === 'string' ? operations[step]?.(table) : step(table));
      };
      const rowsOfOurs = await aloneRows(ours);
      for (const [name, operation] of Object.entries(theirs)) {
        const outcomeOf = async (begin: 'before' | 'after') => {
          rmSync(folder, { recursive: true });
          cpSync(saved, folder, { recursive: true });
          const early = await open(folder);
          await early.countRows();
          await inShadow(dataset, ours, 0);
          const table = begin === 'before' ? early : await open(folder);
          const outcome = await operation(table).then(
            () => 'made',
            () => 'refused',
          );
          const after = await open(folder);
          const all = await contentOf(after);
          const key = ownSql('n < 20 OR n IN (1009, 2501, 60000)');
          const found = all.length > 0 && all[0]?.includes('"n":') ? await contentOf(after, key) : [];
          const byScan = all.filter((row) => {
            const { n } = JSON.parse(row) as { n?: number | null };
            return typeof n === 'number' && (n < 20 || [1_009, 2_501, 60_000].includes(n));
          });
          assert.deepEqual(found, byScan, `${name}, ${begin}: the index finds what is there`);
          return { outcome, all };
        };
        const serial = await outcomeOf('after');
        const { outcome, all } = await outcomeOf('before');
        if (outcome === 'made') assert.deepEqual(all, serial.all, name);
        else assert.equal(all.length, rowsOfOurs, `${name}, refused: the table is as we left it`);
      }
    });
  }
});

describe('a lift is refused where its version would say something wrong (P1)', () => {
  const folder = temporaryFolder(after);
  const dataset = join(folder, 't.lance');
  before(() => build(folder, { isIndexed: true, isChanged: true }));
  const restoring: Operation = async (table) => {
    await table.add(file([60_000], 'first'), 'append');
    await table.checkout((await table.version()) - 1);
    await table.restore();
  };
  const refused: Record<string, Operation> = {
    'of a restore': restoring,
    'of a compaction among other steps': async (table) => {
      await table.add(file([60_000], 'first'), 'append');
      await table.optimize(0, false);
    },
    'of nothing': async () => {},
  };
  for (const [title, operation] of Object.entries(refused)) {
    test(title, async () => {
      const head = newestOf(dataset);
      await assert.rejects(inShadow(dataset, operation, 0), NotReplaceable);
      assert.deepEqual(newestOf(dataset), head);
      rmSync(join(dataset, 'lancegate=staging'), { recursive: true });
    });
  }
});
