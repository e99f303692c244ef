/** `version/create`: what a program of Lance has written becomes the next version, or is refused as what it is. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { connect, type Table } from '@lancedb/lancedb';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { indexesIn, manifestFileOf, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import {
  basePath,
  dataFile,
  field,
  fragment,
  index,
  indexSection,
  manifest,
  uuid,
  writerVersion,
} from '#src/lance-format/messages.ts';
import { type Decoded, decode, edit, encode } from '#src/lance-format/protobuf.ts';
import { type Proposed, propose, stage, stagedBytes } from '#test/fixtures/proposed-version.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { ownTablesUnder } from './own-tables.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Reads everywhere, and writes to one branch.
permit (principal == Principal::"guest", action in Action::"read", resource);
permit (principal == Principal::"guest", action == Action::"CreateTableVersion", resource) when { context.branch == "dev" };
`;

const add =
  (...ids: readonly number[]) =>
  (table: Table) =>
    table.add(ids.map((id) => ({ id, name: 'past the gate' })));

describe('a version that a program of Lance proposes', () => {
  const own = ownTablesUnder(policies, [1, 2, 3]);
  const { post } = own;
  const pathOf = (name = own.table) => join(own.service.tablesFolder, `${name}.lance`);
  const create = (proposed: object, headers = {}) => post('version/create', proposed, headers);
  const proposal = (change: (table: Table) => Promise<unknown> = add(4), branch?: string) =>
    propose(own.later, pathOf(), change, branch);
  const count = async (body: object = {}) => (await post('count_rows', body)).body as unknown as number;
  const newest = async () => (await post('describe')).body.version;
  const upsert = (...ids: readonly number[]) =>
    own.service.post(`/v1/table/${own.table}/merge_insert?on=id`, people([...ids], 'gate'));
  const as = async (subject: string) => ({
    authorization: `Bearer ${await own.service.mint('lancegate:read', subject)}`,
  });
  const manifests = () => readdirSync(join(pathOf(), '_versions')).filter((name) => name.includes('.manifest'));

  /** Refused, with nothing changed. */
  const isRefused = async (answer: Promise<Answer>, status: number, code: number, says: RegExp) => {
    const before = [await newest(), await count()];
    refused(await answer, status, code, says);
    assert.deepEqual([await newest(), await count()], before);
    succeeded(await upsert(100));
  };

  test('is the next one, listed as it is answered, and its staged manifest is gone (P1, P5)', async () => {
    const { version } = succeeded(await create(await proposal()));
    assert.deepEqual(version, (await post('version/describe', { version: 2 })).body.version);
    const { manifest_path: path, version: number } = version as { manifest_path: string; version: number };
    assert.deepEqual([number, basename(path), await newest()], [2, manifestNames(2)[0], 2]);
    assert.ok(existsSync(`/${path}`));
    assert.deepEqual(manifests().sort(), [manifestNames(2)[0], manifestNames(1)[0]]);
    assert.equal(await count(), 4);
    assert.equal(await (await (await connect(own.service.tablesFolder)).openTable(own.table)).countRows(), 4);
  });

  test('is followed by upserts, also where it doubled a key (P2, P4)', async () => {
    succeeded(await upsert(3, 4));
    succeeded(await create(await proposal(add(4, 5))));
    assert.equal(await count({ predicate: 'id = 4' }), 2);
    const { body } = await upsert(4, 5, 6);
    assert.deepEqual([body.num_inserted_rows, body.version], [1, 4]);
    assert.deepEqual([await count({ predicate: 'id = 4' }), await count()], [1, 6]);
  });

  test('may be any change: updates, deletes, indexes, columns, and what replaces all rows', async () => {
    const changes: readonly ((table: Table) => Promise<unknown>)[] = [
      (t) => t.update({ where: 'id = 1', values: { name: 'one' } }),
      (t) => t.delete('id = 2'),
      (t) => t.createIndex('id'),
      (t) => t.addColumns([{ name: 'twice', valueSql: 'id * 2' }]),
      (t) => t.dropColumns(['twice']),
      (t) =>
        t
          .mergeInsert('id')
          .whenMatchedUpdateAll()
          .whenNotMatchedInsertAll()
          .execute([
            { id: 3, name: 'c' },
            { id: 4, name: 'd' },
          ]),
      (t) => t.add([{ id: 7, name: 'g' }], { mode: 'overwrite' }),
    ];
    for (const [index, change] of changes.entries()) {
      succeeded(await create(await proposal(change)));
      assert.equal(await newest(), 2 + index);
    }
    assert.equal(await count(), 1);
    const { body } = await upsert(7, 8);
    assert.deepEqual([body.num_updated_rows, body.num_inserted_rows], [1, 1]);
  });

  test('of a number that another commit took is 409 with code 14, and the number after it 400', async () => {
    const proposed = await proposal();
    succeeded(await upsert(9));
    await isRefused(create(proposed), 409, 14, /version 2 already/);
    await isRefused(create({ ...proposed, version: 9 }), 400, 13, /^version: the next version/);
    await isRefused(create({ ...proposed, version: 0 }), 409, 14, /already/);
  });

  test('of two that want one number, one is made (P1)', async () => {
    const both = [await proposal(add(4)), await proposal(add(5))];
    const answers = await Promise.all(both.map((proposed) => create(proposed)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
    assert.deepEqual([await count(), await newest()], [4, 2]);
  });

  test('with an Idempotency-Key gets the first answer again, and is not made twice (P6)', async () => {
    const proposed = await proposal();
    const key = { 'idempotency-key': 'k' };
    const first = succeeded(await create(proposed, key));
    const again = await create(proposed, key);
    assert.deepEqual(again.body, first);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.equal(await count(), 4);
  });

  test('that is gone when its request comes again is not called one that was never written (P6)', async () => {
    const proposed = await proposal();
    const key = { 'idempotency-key': 'gone' };
    succeeded(await create(proposed, key));
    succeeded(await upsert(5));
    succeeded(await post('version/delete', { ranges: [{ start_version: 2, end_version: 3 }] }));
    refused(await create(proposed, key), 500, 18);
    assert.equal(await newest(), 3);
  });

  test('is read from the folder of its own branch alone (P9)', async () => {
    const proposed = await proposal();
    const { manifest_path: path } = proposed;
    const name = basename(path);
    succeeded(await own.service.post('/v1/table/other/create', people([1], 'x')));
    const other = stage(pathOf('other'), 2, stagedBytes(proposed));
    symlinkSync(`/${path}`, join(pathOf(), '_versions', `2.manifest-link`));
    const versions = path.slice(0, -name.length);
    const paths = [
      ...[other.manifest_path, `/etc/passwd`, 'etc/passwd', '', '/', '.', '..', name, `file:///${path}`],
      ...[`${versions}../_versions/${name}`, `${versions}../../other.lance/_versions/${basename(other.manifest_path)}`],
      ...[`${versions}${manifestNames(1)[0]}`, `${versions}2.manifest-link`, `${versions}9.manifest-9`, `${path}\0`],
      ...[`${versions}./${name}`, `${versions}/${name}`, path.replace('_versions', 'tree/dev/_versions')],
    ];
    for (const manifest_path of paths) {
      refused(await create({ ...proposed, manifest_path }), 400, 13, /^manifest_path: (it must be|there is no)/);
    }
    refused(await create({ ...proposed, manifest_size: 5 }), 400, 13, /manifest_size/);
    refused(await create({ ...proposed, naming_scheme: 'V1' }), 400, 13, /naming_scheme/);
    refused(await create({ ...proposed, metadata: { a: 'b' } }), 400, 13, /metadata/);
    await isRefused(create({ ...proposed, manifest_path: `x${path}` }), 400, 13, /manifest_path/);
  });

  /** The proposed manifest with other fields, or with these indexes. */
  const edited = (proposed: Proposed, changes: Decoded<typeof manifest>, indexes?: readonly Uint8Array[]) => {
    const file = stagedBytes(proposed);
    const sections = sectionsOf(file);
    const message = edit(manifest, sections.message, changes);
    const section = indexes === undefined ? sections.indexes : encode(indexSection, { indexes });
    const bytes = manifestFileOf({ ...sections, message, indexes: section }, file);
    return stage(pathOf(), proposed.version, bytes, proposed.branch);
  };
  const fragments = (proposed: Proposed) => decode(manifest, sectionsOf(stagedBytes(proposed)).message).fragments ?? [];
  const renamedFile = (encoded: Uint8Array, changes: Decoded<typeof dataFile>) => {
    const [file = Buffer.of()] = decode(fragment, encoded).files ?? [];
    return edit(fragment, encoded, { files: [edit(dataFile, file, changes)] });
  };

  test('is refused where its manifest is none, of another version, or has what is not known here (P12)', async () => {
    const proposed = await proposal();
    const whole = stagedBytes(proposed);
    const broken = [
      Buffer.of(),
      Buffer.from('garbage'),
      whole.subarray(0, -20),
      whole.subarray(40),
      Buffer.alloc(5_000),
    ];
    const lengthened = Buffer.from(whole);
    lengthened.writeBigUInt64LE(2n ** 62n, whole.length - 16);
    for (const bytes of [...broken, lengthened]) {
      refused(await create(stage(pathOf(), 2, bytes)), 400, 13, /^manifest_path: the manifest is not fit/);
    }
    const large = stage(pathOf(), 2, Buffer.alloc(17 * 2 ** 20, whole));
    refused(await create(large), 400, 13, /too large/);
    const empty = Buffer.of();
    const fragments = Array.from({ length: 2 ** 20 }, () => empty);
    const crowded = [{ fragments }, { fragments: [encode(fragment, { files: fragments })] }];
    for (const changes of crowded) refused(await create(edited(proposed, changes)), 400, 13, /more parts/);
    refused(await create(edited(proposed, {}, fragments)), 400, 13, /more parts/);
    const walOfMemory = encode(index, { uuid: encode(uuid, { bytes: Buffer.alloc(16, 1) }), name: '__lance_mem_wal' });
    refused(await create(edited(proposed, {}, [walOfMemory])), 400, 13, /write-ahead log/);
    refused(await create(edited(proposed, { version: 3 })), 400, 13, /of version 3/);
    refused(await create(edited(proposed, { branch: 'dev' })), 400, 13, /another branch/);
    refused(await create(edited(proposed, { readerFlags: 2n ** 40n })), 400, 13, /feature flags .*1099511627776/);
    await isRefused(create(edited(proposed, { writerFlags: 64n })), 400, 13, /feature flags/);
  });

  test('is refused where the next commit would fail on it (P12)', async () => {
    const proposed = await proposal();
    refused(await create(edited(proposed, { writerVersion: undefined })), 400, 13, /version of its writer/);
    for (const version of [undefined, '', 'nonsense', '4.0', '14.0.214.0.2']) {
      const writer = encode(writerVersion, { library: 'lance', version });
      refused(await create(edited(proposed, { writerVersion: writer })), 400, 13, /version of its writer/);
    }

    const { fields = [], dataFormat = Buffer.of() } = decode(manifest, sectionsOf(stagedBytes(proposed)).message);
    const padded = Buffer.concat([dataFormat, Buffer.of(0x20, 1)]);
    refused(await create(edited(proposed, { dataFormat: padded })), 400, 13, /storage version is not known/);
    const top = { parentId: 2n ** 64n - 1n, isNullable: true };
    const struct = encode(field, { name: 's', id: 50, logicalType: 'struct', ...top });
    const unnamed = [
      [encode(field, { name: '', id: 50, logicalType: 'int64', ...top })],
      [struct, encode(field, { id: 51, logicalType: 'int64', parentId: 50n })],
    ];
    for (const more of unnamed) {
      refused(await create(edited(proposed, { fields: [...fields, ...more] })), 400, 13, /column without a name/);
    }
    const twice = fragments(proposed).map((each) => {
      const { files = [] } = decode(fragment, each);
      return edit(fragment, each, { files: [...files, ...files] });
    });
    refused(await create(edited(proposed, { fragments: twice })), 400, 13, /two files of fragment 0 hold column 0/);
    const [first = Buffer.of(), added = Buffer.of()] = fragments(proposed);
    const endless = edit(fragment, added, { physicalRows: 2 ** 31 });
    refused(await create(edited(proposed, { fragments: [first, endless] })), 400, 13);
    const many = (lying: number) =>
      Array.from({ length: 400 }, (_, at) =>
        edit(fragment, added, { id: at + 1, ...(at === lying && { physicalRows: 2 }) }),
      );
    for (const lying of [0, 2, 255, 256, 399]) {
      const fragments = [first, ...many(lying)];
      refused(await create(edited(proposed, { fragments, maxFragmentId: 400 })), 400, 13, /not fit: its f/);
    }
    const beyond = edit(fragment, added, { physicalRows: 2 ** 32 + 1 });
    refused(
      await create(edited(proposed, { fragments: [first, beyond] })),
      400,
      13,
      /more rows than there are addresses/,
    );
    const identified = edit(fragment, added, { rowIds: Buffer.of(10, 6, 10, 4, 8, 1, 16, 2) });
    refused(
      await create(edited(proposed, { fragments: [first, identified] })),
      400,
      13,
      /fragment 0 has no identifiers/,
    );

    const indexed = await proposal((t) => t.createIndex('id'));
    const [ofId = Buffer.of()] = indexesIn(sectionsOf(stagedBytes(indexed)).indexes);
    refused(await create(edited(indexed, {}, [ofId, ofId])), 400, 13, /two indexes have one identifier/);
    const uncovered = edit(index, ofId, { name: '__id', coverage: undefined });
    refused(await create(edited(indexed, {}, [uncovered])), 400, 13, /index __id does not say what it covers/);
  });

  test('names no rows but those of its branch (P9)', async () => {
    succeeded(await own.service.post('/v1/table/secret/create', people([9], 'x')));
    const [secret = ''] = readdirSync(join(pathOf('secret'), 'data'));
    const proposed = await proposal();
    const [first = Buffer.of(), added = Buffer.of()] = fragments(proposed);
    const naming = (changes: Decoded<typeof dataFile>, basePaths?: readonly Uint8Array[]) =>
      create(edited(proposed, { fragments: [first, renamedFile(added, changes)], ...(basePaths && { basePaths }) }));
    const base = encode(basePath, { id: 1, isDatasetRoot: true, path: pathOf('secret') });
    for (const path of [
      `../../secret.lance/data/${secret}`,
      `${pathOf('secret')}/data/${secret}`,
      '..',
      '',
      'a//b',
      'a\0b',
      'ä',
    ])
      refused(await naming({ path }), 400, 13, /by a path that is not one inside the branch/);
    refused(await naming({ path: secret, baseId: 1 }, [base]), 400, 13, /a base path that the table does not have/);
    refused(await naming({ path: secret, baseId: 1 }), 400, 13, /no base path|outside the branch/);
    refused(await naming({ path: secret }), 400, 13, /missing, or of another size/);
    symlinkSync(join(pathOf('secret'), 'data', secret), join(pathOf(), 'data', secret));
    refused(await naming({ path: secret }), 400, 13, /missing, or of another size/);
    writeFileSync(join(pathOf(), 'data', 'short.lance'), 'LANC');
    refused(await naming({ path: 'short.lance' }), 400, 13, /missing, or of another size/);
    const other = edited(proposed, { fragments: [edit(fragment, first, { physicalRows: 2 }), added] });
    refused(await create(other), 400, 13, /fragment 0 has other rows/);
    const foreign = await propose(own.later, pathOf('secret'), add(10));
    await isRefused(create(stage(pathOf(), 2, stagedBytes(foreign))), 400, 13, /fragment 0 has other rows|missing/);
  });

  test('is of main or of one branch, and an unknown branch or a declared table has none', async () => {
    succeeded(await post('branches/create', { name: 'dev' }));
    const onMain = await proposal();
    const onBranch = await proposal(add(7, 8), 'dev');
    refused(await create({ ...onBranch, branch: undefined }), 400, 13, /manifest_path/);
    refused(await create({ ...onMain, branch: 'dev' }), 400, 13, /manifest_path|version/);
    refused(await create({ ...onMain, branch: 'nowhere' }), 404, 22);
    succeeded(await create(onBranch));
    succeeded(await create(onMain));
    assert.deepEqual([await count(), await count({ branch: 'dev' })], [4, 5]);
    succeeded(await own.service.post('/v1/table/declared/declare', {}));
    refused(await own.service.post('/v1/table/declared/version/create', onMain), 400, 13);
    refused(await own.service.post('/v1/table/nowhere/version/create', onMain), 404, 4);
  });

  test('of a branch names no row that its parent got later (P9)', async () => {
    succeeded(await post('branches/create', { name: 'dev' }));
    const before = readdirSync(join(pathOf(), 'data'));
    succeeded(await upsert(9));
    const [later = ''] = readdirSync(join(pathOf(), 'data')).filter((name) => !before.includes(name));
    const onBranch = await proposal(add(7), 'dev');
    const bases = decode(manifest, sectionsOf(stagedBytes(onBranch)).message).basePaths ?? [];
    const [{ id: baseId = 0 }] = bases.map((each) => decode(basePath, each)) as [Decoded<typeof basePath>];
    const [first = Buffer.of(), added = Buffer.of()] = fragments(onBranch);
    const ofParent = edited(onBranch, { fragments: [first, renamedFile(added, { path: later, baseId })] });
    refused(await create(ofParent), 400, 13, /outside the branch/);
    succeeded(await create(onBranch));
  });

  test('needs the right on its branch, and leaves an audit record (P9)', async () => {
    succeeded(await post('branches/create', { name: 'dev' }));
    const guest = await as('guest');
    refused(await create(await proposal(), guest), 403, 15, /CreateTableVersion/);
    succeeded(await create(await proposal(add(7), 'dev'), guest));
    const records = own.service.log
      .map((line) => JSON.parse(line))
      .filter(({ actions }) => actions?.includes('CreateTableVersion'));
    assert.deepEqual(
      records.slice(-2).map(({ decision, branch, version }) => [decision, branch, version]),
      [
        ['denied', 'main', undefined],
        ['allowed', 'dev', 2],
      ],
    );
  });

  test('can come as a batch of one; several are not one commit, so none is made (P1)', async () => {
    const batch = (entries: readonly object[], headers = {}) =>
      own.service.post('/v1/table/version/batch-create', { entries }, headers);
    const entry = { ...(await proposal()), id: [own.table] };
    const { versions } = succeeded(await batch([entry])) as { versions: readonly { version: number }[] };
    assert.deepEqual([versions.map(({ version }) => version), await count()], [[2], 4]);
    assert.deepEqual(succeeded(await batch([])).versions, []);
    const next = { ...(await proposal(add(5))), id: [own.table] };
    refused(await batch([next, next]), 406, 0, /one by one/);
    refused(await batch([{ ...next, id: [] }]), 400, 13);
    refused(await batch([next], await as('guest')), 403, 15);
    assert.equal(await count(), 4);
  });
});

test('tables are described as managed where the operator asks for it, declared ones too', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean), { MANAGED_VERSIONING: 'true' });
  const plain = await startCheckedService((clean) => t.after(clean));
  for (const each of [service, plain]) {
    succeeded(await each.post('/v1/table/t/create', people([1], 'x')));
    succeeded(await each.post('/v1/table/declared/declare', {}));
  }
  const managed = async (each: TestService, name: string) =>
    succeeded(await each.post(`/v1/table/${name}/describe`)).managed_versioning;
  assert.deepEqual([await managed(service, 't'), await managed(service, 'declared')], [true, true]);
  assert.equal(await managed(plain, 't'), undefined);
});
