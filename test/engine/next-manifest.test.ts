/** The manifest of a commit that replaces rows, made of the bytes of the one before. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { nextManifest } from '#src/lance-format/manifest/next-manifest.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { WireReader, WireWriter } from '#src/lance-format/protobuf.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

/** Field numbers of a manifest (Lance's `protos/table.proto`). */
const of = {
  fragment: 2,
  version: 3,
  auxiliaryData: 4,
  indexSection: 6,
  timestamp: 7,
  tag: 8,
  readerFlags: 9,
  writerFlags: 10,
  maxFragmentId: 11,
  transactionFile: 12,
  config: 16,
  transactionSection: 21,
  transactionSectionOfLance14: 23,
} as const;

type Request = Parameters<typeof nextManifest>[1];

let plain: Buffer = Buffer.of();
let indexed: Buffer = Buffer.of();
let staged: Buffer = Buffer.of();

/** Real manifests of the engine: of two fragments, of the same with an index, of the new rows. */
before(async () => {
  const folder = temporaryFolder(after);
  const rows = (...ids: readonly number[]) => new Table({ id: vectorFromArray(ids, new Int32()) });
  const database = await connect(folder);
  const table = await database.createTable('t', rows(1, 2, 3, 4));
  await table.add(rows(5, 6));
  plain = newestIn(join(folder, 't.lance'));
  await table.createIndex('id', { config: Index.btree() });
  indexed = newestIn(join(folder, 't.lance'));
  await database.createTable('staged', rows(7, 8, 9));
  staged = newestIn(join(folder, 'staged.lance'));
});

function newestIn(dataset: string): Buffer {
  const [newest = ''] = readdirSync(join(dataset, '_versions'))
    .filter((name) => name.endsWith('.manifest'))
    .sort();
  return readFileSync(join(dataset, '_versions', newest));
}

const sectionAt = (file: Buffer, at: number): Buffer => file.subarray(at + 4, at + 4 + file.readUInt32LE(at));
const messageOf = (file: Buffer): Buffer => sectionAt(file, Number(file.readBigUInt64LE(file.length - 16)));

interface RawField {
  readonly field: number;
  readonly raw: Buffer;
}

function fieldsOf(message: Uint8Array): RawField[] {
  const reader = new WireReader(message);
  const fields: RawField[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    fields.push({ field, raw: Buffer.from(reader.raw()) });
  }
  return fields;
}

/** All fields with a number, of the message of a manifest. */
const rawOf = (file: Buffer, number: number): Buffer[] =>
  fieldsOf(messageOf(file))
    .filter(({ field }) => field === number)
    .map(({ raw }) => raw);

function numberOf(file: Buffer, number: number): number | undefined {
  const [raw] = rawOf(file, number);
  if (raw === undefined) return undefined;
  const reader = new WireReader(raw);
  reader.next();
  return reader.number();
}

/** The manifest with another message, and with another section of indexes before it. */
function rewritten(file: Buffer, change: (fields: RawField[]) => readonly Uint8Array[], indexes?: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  const sections = file.subarray(0, Number(file.readBigUInt64LE(file.length - 16)));
  const added = indexes === undefined ? Buffer.of() : Buffer.concat([lengthOf(indexes), indexes]);
  const fields = fieldsOf(messageOf(file)).filter(({ field }) => indexes === undefined || field !== of.indexSection);
  const index = new WireWriter();
  if (indexes !== undefined) index.number(of.indexSection, sections.length);
  const message = Buffer.concat([...change(fields), index.finish()]);
  length.writeUInt32LE(message.length);
  const position = Buffer.alloc(8);
  position.writeBigUInt64LE(BigInt(sections.length + added.length));
  return Buffer.concat([sections, added, length, message, position, file.subarray(file.length - 8)]);
}

function lengthOf(bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return length;
}

const raws = (fields: readonly RawField[]): Buffer[] => fields.map(({ raw }) => raw);
const appended = (file: Buffer, message: WireWriter): Buffer =>
  rewritten(file, (fields) => [...raws(fields), message.finish()]);
const replaced = (file: Buffer, number: number, message: WireWriter): Buffer =>
  rewritten(file, (fields) => [...raws(fields.filter(({ field }) => field !== number)), message.finish()]);
/** With one more field in each fragment. */
const inFragments = (file: Buffer, more: WireWriter): Buffer =>
  rewritten(file, (fields) =>
    fields.map(({ field, raw }) => {
      if (field !== of.fragment) return raw;
      const reader = new WireReader(raw);
      reader.next();
      return new WireWriter().bytes(field, Buffer.concat([reader.bytes(), more.finish()])).finish();
    }),
  );

const transactionId = '8f8e3c8a-0f5a-4b0e-9a53-0a5d3b1f4c55';
const committedAtMs = 1_700_000_123_456;
const request = (changes: Partial<Request> = {}): Request => ({
  deletions: new Map([[0, { readVersion: 2, id: 2n ** 63n + 5n, deletedRows: 3 }]]),
  staged,
  transactionId,
  committedAtMs,
  ...changes,
});

const bytesOf = (file: Buffer, number: number): Buffer => {
  const [raw = Buffer.of()] = rawOf(file, number);
  const reader = new WireReader(raw);
  reader.next();
  return Buffer.from(reader.bytes());
};

describe('the next manifest says what the commit did', () => {
  test('new fragments come, numbered on; of old ones some have deletions, some are gone', () => {
    const allGone = new Map([...request().deletions, [1, 'all rows' as const]]);
    const { version, bytes, fragments } = nextManifest(plain, request({ deletions: allGone }));
    assert.deepEqual([version, fragments], [3, [{ id: 2, rows: 3 }]]);
    const manifest = parseManifest(bytes);
    assert.deepEqual([manifest.version, manifest.committedAtMs], [3, committedAtMs]);
    const parsed = manifest.fragments.map(({ id, rows, deletedRows, deletionsId }) => ({
      id,
      rows,
      deletedRows,
      deletionsId,
    }));
    assert.deepEqual(parsed, [
      { id: 0, rows: 4, deletedRows: 3, deletionsId: 2n ** 63n + 5n },
      { id: 2, rows: 3, deletedRows: 0, deletionsId: undefined },
    ]);
    const named = (file: Buffer, kind: string) =>
      parseManifest(file)
        .files.filter((each) => each.kind === kind)
        .map(({ path }) => path);
    assert.deepEqual(named(bytes, 'data'), [named(plain, 'data')[0], ...named(staged, 'data')]);
    assert.deepEqual(named(bytes, 'deletions'), ['0-2-9223372036854775813.bin']);
    assert.equal(numberOf(bytes, of.maxFragmentId), 2);
  });

  test('numbers of fragments are never given again, also where the last ones are gone', () => {
    const first = nextManifest(plain, request({ deletions: new Map() }));
    const second = nextManifest(first.bytes, request({ deletions: new Map([[2, 'all rows']]) }));
    assert.deepEqual(second.fragments, [{ id: 3, rows: 3 }]);
    assert.deepEqual(
      parseManifest(second.bytes).fragments.map(({ id }) => id),
      [0, 1, 3],
    );
    const nothing = rewritten(staged, (fields) => raws(fields.filter(({ field }) => field !== of.fragment)));
    const gone = nextManifest(second.bytes, request({ deletions: new Map([[3, 'all rows']]), staged: nothing }));
    assert.deepEqual(nextManifest(gone.bytes, request()).fragments, [{ id: 4, rows: 3 }]);
    const without = rewritten(plain, (fields) => raws(fields.filter(({ field }) => field !== of.maxFragmentId)));
    assert.deepEqual(nextManifest(without, request()).fragments, [{ id: 2, rows: 3 }]);
  });

  test('other deletions of a fragment take the place of those it had', () => {
    const first = nextManifest(plain, request()).bytes;
    const deletions = new Map([[0, { readVersion: 3, id: 7n, deletedRows: 4 }]]);
    const { bytes } = nextManifest(first, request({ deletions }));
    const [fragment] = parseManifest(bytes).fragments;
    assert.deepEqual([fragment?.deletedRows, fragment?.deletionsId], [4, 7n]);
    const numbers = fieldsOf(bytesOf(bytes, of.fragment)).map(({ field }) => field);
    assert.equal(new Set(numbers).size, numbers.length);
  });

  test('it says that there are deletions only where there are', () => {
    const flags = (file: Buffer) => [numberOf(file, of.readerFlags) ?? 0, numberOf(file, of.writerFlags) ?? 0];
    const before = flags(plain);
    assert.deepEqual(
      before.map((each) => each & 1),
      [0, 0],
    );
    assert.deepEqual(flags(nextManifest(plain, request({ deletions: new Map() })).bytes), before);
    assert.deepEqual(
      flags(nextManifest(plain, request()).bytes),
      before.map((each) => each | 1),
    );
  });

  test('its transaction is in it and in a file, word for word, and is an update of the version before', () => {
    const deletions = new Map([...request().deletions, [1, 'all rows' as const]]);
    const { bytes, transaction, transactionFile } = nextManifest(plain, request({ deletions }));
    assert.equal(transactionFile, `2-${transactionId}.txn`);
    assert.equal(bytesOf(bytes, of.transactionFile).toString(), transactionFile);
    assert.deepEqual(parseManifest(bytes).transaction, transaction);
    const reader = new WireReader(transaction);
    assert.deepEqual([reader.next(), reader.number()], [1, 2]);
    assert.deepEqual([reader.next(), reader.text()], [2, transactionId]);
    assert.equal(reader.next(), 108);
    assert.deepEqual(
      fieldsOf(reader.bytes()).map(({ field }) => field),
      [1, 2, 3],
    );
    assert.equal(reader.next(), undefined);
  });

  test('deletions of a fragment that is not there are an error', () => {
    assert.throws(() => nextManifest(plain, request({ deletions: new Map([[7, 'all rows']]) })), {
      name: 'MalformedFile',
    });
  });
});

describe('what a commit does not change stays as it was', () => {
  test('also fields that no writer knows yet', () => {
    const unknown = new WireWriter().text(999, 'from the future').number(998, 2 ** 40);
    const { bytes } = nextManifest(appended(plain, unknown), request());
    assert.equal(bytesOf(bytes, 999).toString(), 'from the future');
    assert.equal(numberOf(bytes, 998), 2 ** 40);
    const ofOneVersion: readonly number[] = Object.values(of).filter((field) => field !== of.config);
    const kept = (file: Buffer) => fieldsOf(messageOf(file)).filter(({ field }) => !ofOneVersion.includes(field));
    assert.ok(kept(plain).length > 1);
    assert.deepEqual(kept(nextManifest(plain, request()).bytes), kept(plain));
  });

  test('fragments without a change, byte for byte', () => {
    const { bytes } = nextManifest(plain, request());
    assert.deepEqual(rawOf(bytes, of.fragment)[1], rawOf(plain, of.fragment)[1]);
  });

  test('but not what was said of the version before alone', () => {
    const note = new WireWriter().text(of.tag, 'a tag').number(of.auxiliaryData, 5);
    note.number(of.transactionSectionOfLance14, 152); // pylance 14 takes a position of the version before for one of this
    const { bytes } = nextManifest(appended(plain, note), request());
    for (const field of [of.tag, of.auxiliaryData, of.transactionSectionOfLance14]) {
      assert.deepEqual(rawOf(bytes, field), [], `${field}`);
    }
    for (const field of [of.timestamp, of.transactionFile, of.transactionSection, of.version]) {
      assert.equal(rawOf(bytes, field).length, 1, `${field}`);
    }
  });

  test('the section of indexes, byte for byte, version after version', () => {
    const sectionOf = (file: Buffer) => sectionAt(file, numberOf(file, of.indexSection) ?? assert.fail());
    const first = nextManifest(indexed, request()).bytes;
    const second = nextManifest(first, request({ deletions: new Map([[1, 'all rows']]) })).bytes;
    assert.ok(sectionOf(indexed).length > 50);
    for (const file of [first, second]) {
      assert.deepEqual(sectionOf(file), sectionOf(indexed));
      assert.equal(parseManifest(file).indexes.length, 1);
      assert.equal(file.toString('latin1', file.length - 4), 'LANC');
    }
    assert.deepEqual(rawOf(nextManifest(plain, request()).bytes, of.indexSection), []);
  });

  test('the mark and the version of the format at its end', () => {
    const { bytes } = nextManifest(plain, request());
    assert.deepEqual(bytes.subarray(bytes.length - 8), plain.subarray(plain.length - 8));
  });
});

describe('what its writers are asked to know and we do not is refused (P1)', () => {
  const refused = { name: 'NotReplaceable' };

  test('features, by their flags, of readers and of writers, of the table and of the new rows', () => {
    for (const field of [of.readerFlags, of.writerFlags]) {
      for (const bit of [1, 5, 6, 7, 20, 30, 31]) {
        const flags = new WireWriter().number(field, 2 ** bit);
        assert.throws(() => nextManifest(replaced(plain, field, flags), request()), refused, `bit ${bit}`);
        assert.throws(
          () => nextManifest(plain, request({ staged: replaced(staged, field, flags) })),
          refused,
          `bit ${bit}`,
        );
      }
      for (const bit of [0, 2, 3, 4])
        nextManifest(replaced(plain, field, new WireWriter().number(field, 2 ** bit)), request());
    }
  });

  test('features whose flags are beyond the first 32, too', () => {
    for (const field of [of.readerFlags, of.writerFlags]) {
      for (const bit of [32, 40, 52]) {
        const flags = new WireWriter().number(field, 2 ** bit);
        assert.throws(() => nextManifest(replaced(plain, field, flags), request()), refused, `bit ${bit}`);
      }
    }
  });

  test('flags that are kept are those of the table', () => {
    const flags = 1 + 4 + 8 + 16;
    const { bytes } = nextManifest(
      replaced(plain, of.writerFlags, new WireWriter().number(of.writerFlags, flags)),
      request(),
    );
    assert.equal(numberOf(bytes, of.writerFlags), flags);
  });

  test('what fragments can have besides: identifiers of rows, their versions, overlays, and what no writer knows yet', () => {
    for (const field of [5, 6, 7, 8, 9, 10, 11, 12, 99]) {
      const more = new WireWriter().bytes(field, Buffer.from('anything'));
      assert.throws(() => nextManifest(inFragments(plain, more), request()), refused, `field ${field}`);
      assert.throws(
        () => nextManifest(plain, request({ staged: inFragments(staged, more) })),
        refused,
        `field ${field}`,
      );
    }
    nextManifest(inFragments(plain, new WireWriter()), request());
  });

  test('files of another version', () => {
    const format = new WireWriter().message(15, new WireWriter().text(1, 'lance').text(2, '2.7'));
    assert.throws(() => nextManifest(replaced(plain, 15, format), request()), refused);
    assert.throws(() => nextManifest(plain, request({ staged: replaced(staged, 15, format) })), refused);
  });

  test('indexes that take part in commits, wherever they stand among others', () => {
    const named = (name: string) => new WireWriter().message(1, new WireWriter().bytes(2, Buffer.of(0)).text(3, name));
    const section = (...names: readonly string[]) => Buffer.concat(names.map((name) => named(name).finish()));
    const having = (...names: readonly string[]) => rewritten(plain, raws, section(...names));
    for (const name of ['__lance_mem_wal', '__lance_frag_reuse', '__anything']) {
      assert.throws(() => nextManifest(having(name), request()), refused, name);
      assert.throws(() => nextManifest(having('id_idx', name), request()), refused, name);
    }
    nextManifest(having('id_idx', '_lance', 'a__lance'), request());
  });
});
