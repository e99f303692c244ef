/** Versions of other programs whose columns native code must not read: an honest error, wherever they come from, and the service lives. */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { branchFolder, listVersions, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { manifestFileOf, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import { field, manifest, mapEntry } from '#src/lance-format/messages.ts';
import { decode, edit, encode } from '#src/lance-format/protobuf.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { stage } from '#test/fixtures/proposed-version.ts';
import { type ServiceProcess, serviceOfTest } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const top = 2n ** 64n - 1n;
const nested = (depth: number) =>
  Array.from({ length: depth }, (_, at) =>
    encode(field, {
      ...{ name: 's', id: 100 + at, parentId: at === 0 ? top : BigInt(99 + at) },
      ...{ logicalType: at === depth - 1 ? 'int64' : 'struct', isNullable: true },
    }),
  );
const ofType = (logicalType: string) => [
  encode(field, { name: 'v', id: 100, parentId: top, logicalType, isNullable: true }),
];
const column = (name: string, logicalType: string, id = 100, parentId = top) =>
  encode(field, { name, id, parentId, logicalType, isNullable: true });
const mars = 'timestamp:us:Mars/Phobos';
/** They are read, and then filters, merges, compaction or other programs fail on them. */
const unlikeCreated: readonly (readonly [columns: readonly Uint8Array[], says: RegExp])[] = [
  [ofType(mars), /column v: type timestamp\(us, Mars\/Phobos\) .*time zone/],
  [ofType('timestamp:us:utc'), /column v: .*time zone/],
  [[column('v', 'struct'), column('at', mars, 101, 100n)], /column v\.at: .*time zone/],
  [[column('v', 'list'), column('item', mars, 101, 100n)], /column v\.item: .*time zone/],
  [ofType(`fixed_size_list:${mars}:2`), /column v\.item: .*time zone/],
  [ofType('fixed_size_list:string:3'), /column v: .*elements must have a fixed width/],
  [[column('v', 'struct')], /column v: .*has no fields/],
  [[column('v', 'int64'), column('a', 'int64', 101, 100n)], /a column is in one of type int64/],
  [[column('a\0b', 'int64')], /NUL/],
  [[column('__merge_source_sentinel', 'bool')], /reserved by Lance/],
  [[column('__action', 'int64')], /reserved by Lance/],
];
const wide = (count: number) =>
  Array.from({ length: count }, (_, at) =>
    encode(field, { name: `c${at}`, id: 100 + at, parentId: top, logicalType: 'int64', isNullable: true }),
  );

const beyond: readonly (readonly [title: string, columns: readonly Uint8Array[]])[] = [
  ['9,000 structs in one another', nested(9_000)],
  ['33 structs in one another', nested(33)],
  ['lists of fixed size in one another', ofType(`${'fixed_size_list:'.repeat(60)}float${':2'.repeat(60)}`)],
  ['a type without end', ofType(`${'fixed_size_list:'.repeat(60_000)}float`)],
  ['lists of more values than there can be', ofType('fixed_size_list:fixed_size_list:float:2147483647:2147483647')],
  ['12,000 columns', wide(12_000)],
  ['a time zone of a fixed offset', ofType('timestamp:us:+02:00')],
  [
    'an id after which there is none',
    [encode(field, { name: 'v', id: 2 ** 31 - 1, parentId: top, logicalType: 'int64' })],
  ],
  ['lists of times with such a zone', ofType('fixed_size_list:timestamp:ns:-05:30:2')],
];

/** The manifest with these columns as well, as another version if one is given. */
function withColumns(file: Buffer, columns: readonly Uint8Array[], version?: number): Buffer {
  const sections = sectionsOf(file);
  const { fields = [] } = decode(manifest, sections.message);
  const changes = { fields: [...fields, ...columns], ...(version !== undefined && { version }) };
  return manifestFileOf({ ...sections, message: edit(manifest, sections.message, changes) }, file);
}

describe('columns beyond bounds (P12)', () => {
  const later = afterSuite();
  let service: ServiceProcess;
  let original = '';
  before(async () => {
    service = await serviceOfTest(later);
    original = join(temporaryFolder(later), 't.lance');
    const table = await (await connect(join(original, '..'))).createTable('t', [{ id: 1 }, { id: 2 }]);
    await (await table.branches()).create('dev');
    await table.add([{ id: 3 }]);
    table.close();
  });
  let tables = 0;

  const post = async (table: string, path: string, body: object = {}) => {
    const answer = await service.post(`/v1/table/${table}/${path}`, body).catch((cause: unknown) => {
      assert.fail(`${path}: ${String(cause)}; ${service.death ?? 'the service lives'}`);
    });
    return answer;
  };
  const isRefused = async (table: string, path: string, body: object = {}, code = 19) => {
    const { status, body: answer } = await post(table, path, body);
    assert.deepEqual([status, answer.code], [400, code], `${path}: ${JSON.stringify(answer)}`);
    assert.match(
      String(answer.error),
      /nested more than 32 deep|fixed size|type that is too long|more than 10000 fields|time zone with a colon|id above/,
    );
  };
  const isRead = async (table: string, path: string, body: object = {}) => {
    const { status, body: answer } = await post(table, path, body);
    assert.equal(status, 200, `${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  const copied = (): readonly [table: string, path: string] => {
    tables += 1;
    const path = join(service.tablesFolder, `t${tables}.lance`);
    cpSync(original, path, { recursive: true });
    return [`t${tables}`, path];
  };
  const registered = async () => {
    const [table, path] = copied();
    await isRead(table, 'register', { location: `${table}.lance` });
    return [table, path] as const;
  };
  const versionsOf = (path: string, branch?: string) => join(branchFolder(path, branch), '_versions');
  const newestOf = (path: string, branch?: string) => {
    const folder = versionsOf(path, branch);
    return { version: listVersions(folder).at(-1)!, ...readManifest(folder, listVersions(folder).at(-1)!)! };
  };
  /** As another program commits it, past the gate. */
  const commit = (path: string, columns: readonly Uint8Array[], branch?: string) => {
    const { version, bytes } = newestOf(path, branch);
    const name = `${2n ** 64n - 2n - BigInt(version)}.manifest`;
    writeFileSync(join(versionsOf(path, branch), name), withColumns(bytes, columns, version + 1));
  };

  for (const [title, columns] of beyond) {
    test(`${title}: proposed`, async () => {
      const [table, path] = await registered();
      const { version, bytes } = newestOf(path);
      const proposed = stage(path, version + 1, withColumns(bytes, columns, version + 1));
      await isRefused(table, 'version/create', proposed, 13);
      assert.equal(await isRead(table, 'count_rows'), 3);
    });

    test(`${title}: registered, or committed past the gate`, async () => {
      const [unread, at] = copied();
      const { path: newest, bytes } = newestOf(at);
      writeFileSync(newest, withColumns(bytes, columns));
      await isRefused(unread, 'register', { location: `${unread}.lance` });
      const [table, path] = await registered();
      await isRead(table, 'count_rows');
      commit(path, columns);
      const reads = ['describe', 'count_rows', 'stats', 'branches/list', 'index/list'];
      for (const read of reads) await isRefused(table, read);
      await isRefused(table, 'count_rows', { predicate: 'id > 1' });
      await isRefused(table, 'delete', { predicate: 'id > 1' });
      await isRefused(table, 'count_rows', { branch: 'dev' });
    });
  }

  /** Proposes the newest version again, with these columns as well. */
  const proposed = async ([table, path]: readonly [string, string], columns: readonly Uint8Array[]) => {
    const { version, bytes } = newestOf(path);
    return post(table, 'version/create', stage(path, version + 1, withColumns(bytes, columns, version + 1)));
  };

  test('that a create would refuse are refused in a proposal, unless the table has them already', async () => {
    const registration = await registered();
    for (const [columns, says] of unlikeCreated) {
      const { status, body } = await proposed(registration, columns);
      assert.deepEqual([status, body.code], [400, 13], `${says}: ${JSON.stringify(body)}`);
      assert.match(String(body.error), says);
    }
    const usual = [column('v', 'timestamp:us:Europe/Berlin'), column('w', 'timestamp:us:+0200', 101)];
    assert.equal((await proposed(registration, usual)).status, 200);
    const old = await registered();
    commit(old[1], ofType(mars));
    assert.equal((await proposed(old, [column('w', 'int64', 101)])).status, 200);
    assert.equal(await isRead(old[0], 'count_rows'), 3);
  });

  test('that are read and cannot be written are a mistake of their writer, and can be dropped', async () => {
    const metadata = [encode(mapEntry, { key: 'lance-encoding:blob', value: 'true' })];
    const twice = [column('v', 'struct'), column('a', 'int64', 101, 100n), column('a', 'int64', 102, 100n)];
    const blob = edit(field, column('v', 'large_binary'), { metadata });
    for (const [columns, says] of [
      [ofType('struct'), /column v holds structs without fields/],
      [[blob], /column v holds blobs/],
      [
        twice,
        /a struct (has two fields a|of the table has two fields of one name), and Lance can only read it; drop the column/,
      ],
    ] as const) {
      const [table, path] = await registered();
      commit(path, columns);
      for (const [write, body] of [
        ['maintain', {}],
        ['update', { predicate: 'id = 1', updates: [['id', '7']] }],
        ['merge_insert?on=id', [{ id: 9 }]],
      ] as const) {
        const answer = await post(table, write, body);
        if (answer.status === 200) continue;
        assert.deepEqual([answer.status, answer.body.code], [400, 20], `${write}: ${JSON.stringify(answer.body)}`);
        assert.match(String(answer.body.error), says);
      }
      await isRead(table, 'drop_columns', { columns: ['v'] });
      await isRead(table, 'update', { predicate: 'id = 1', updates: [['id', '8']] });
      await isRead(table, 'maintain');
    }
  });

  test('in an older version, which is neither read, nor restored, cloned or branched', async () => {
    const [table, path] = await registered();
    const { bytes, version, path: newest } = newestOf(path);
    writeFileSync(newest, withColumns(bytes, nested(9_000)));
    writeFileSync(
      join(versionsOf(path), `${2n ** 64n - 2n - BigInt(version)}.manifest`),
      withVersion(bytes, version + 1),
    );
    assert.equal(await isRead(table, 'count_rows'), 3);
    await isRefused(table, 'count_rows', { version });
    await isRefused(table, 'restore', { version });
    await isRefused(table, 'branches/create', { name: 'old', from_version: version });
    await isRefused(`${table}_clone`, 'clone', { source_location: `${table}.lance`, source_version: version });
  });

  test('on a branch of another program: the branch alone cannot be read', async () => {
    const [table, path] = await registered();
    commit(path, nested(9_000), 'dev');
    await isRefused(table, 'count_rows', { branch: 'dev' });
    assert.equal(await isRead(table, 'count_rows'), 3);
    const { branches } = (await isRead(table, 'branches/list')) as { branches: object };
    assert.ok(JSON.stringify(branches).includes('dev'));
    assert.ok(readFileSync(newestOf(path, 'dev').path).length > 100_000);
  });

  test('with 32 structs in one another all works', async () => {
    const [table, path] = await registered();
    commit(path, nested(32));
    assert.equal(await isRead(table, 'count_rows', { predicate: 'id > 1' }), 2);
  });
});

const withVersion = (file: Buffer, version: number): Buffer => withColumns(file, [], version);
