/** The sequences in which a table with stable row ids keeps the ids of its rows. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Location } from '#src/kernel/ids.ts';
import { readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { encodeNumbers } from '#src/lance-format/manifest/number-sequence.ts';
import { manifestFileOf, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import { FragmentIdentities, requireIdentities } from '#src/lance-format/manifest/row-identity.ts';
import * as messages from '#src/lance-format/messages.ts';
import { decode, edit, encode } from '#src/lance-format/protobuf.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const location = 't.lance' as Location;
const file = (ids: readonly number[]) => ipcFile(new Table({ id: vectorFromArray(ids, new Int32()) }));

const range = (start: number, end: number) => encode(messages.rangeSegment, { start, end });
const sequence = (...segments: Parameters<typeof encode<(typeof messages.segment)['fields']>>[1][]) =>
  encode(messages.rowIdSequence, { segments: segments.map((each) => encode(messages.segment, each)) });
const fragmentOf = (physicalRows: number, rowIds: Uint8Array) => encode(messages.fragment, { physicalRows, rowIds });
const ofTwoBytes = (base: number, ...offsets: readonly number[]) =>
  encode(messages.numberArrays, {
    ofTwoBytes: encode(messages.numberArray, { base, offsets: Buffer.from(Uint16Array.from(offsets).buffer) }),
  });
const ofFourBytes = (offsets: Buffer) =>
  encode(messages.numberArrays, { ofFourBytes: encode(messages.numberArray, { offsets }) });
const withRest = (start: number, end: number, rest: Uint8Array) => encode(messages.rangeSegment, { start, end, rest });

describe('ids of rows', () => {
  test('are read in every kind of segment', () => {
    const ids = sequence(
      { range: range(3, 6) },
      { rangeWithHoles: withRest(10, 20, ofTwoBytes(10, 0, 3, 4, 9)) },
      { rangeWithBitmap: withRest(100, 112, Buffer.of(0b0010_0001, 0b1000)) },
      { sortedArray: ofTwoBytes(1_000, 1, 5) },
      { array: ofTwoBytes(50, 7, 0) },
    );
    const expected = [3, 4, 5, 11, 12, 15, 16, 17, 18, 100, 105, 111, 1_001, 1_005, 57, 50];
    const rows = new FragmentIdentities(fragmentOf(expected.length, ids));
    assert.deepEqual(
      expected.map((_, offset) => rows.at(offset).id),
      expected,
    );
    assert.throws(() => rows.at(expected.length), { name: 'MalformedFile' });
  });

  test('are found in a bitmap of any length', () => {
    const present = Array.from({ length: 5_000 }, (_, id) => id).filter((id) => id % 7 !== 3 && id % 512 > 30);
    const bits = Buffer.alloc(625);
    for (const id of present) bits[id >> 3]! |= 1 << (id % 8);
    const rows = new FragmentIdentities(
      fragmentOf(present.length, sequence({ rangeWithBitmap: withRest(0, 5_000, bits) })),
    );
    assert.deepEqual(
      present.map((_, offset) => rows.at(offset).id),
      present,
    );
  });

  test('of any size, in any order, LanceDB reads as they were written (P1)', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const options = { new_table_enable_stable_row_ids: 'true' };
    const dataset = await createDataset(engineIn(folder), location, file([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), options);
    t.after(() => dataset.close());
    for (const nextRowId of [11, 2 ** 20, 2 ** 40]) {
      const version = await dataset.version();
      const { path, bytes } = readManifest(join(folder, location, '_versions'), version)!;
      const { message, ...sections } = sectionsOf(bytes);
      writeFileSync(
        path,
        manifestFileOf({ ...sections, message: edit(messages.manifest, message, { nextRowId }) }, bytes),
      );
      await dataset.refresh();
      const tracked = dataset.liveRows()!;
      tracked.advance(version);
      const fragment = version === 1 ? 0 : version - 1;
      const old = [7, 2, 3].map((offset) => ({ fragment, offset }));
      const rows = [20, 21, 22, 23, 24, 25, 26, 27].map((id) => id + 100 * version);
      const updated = () => [undefined, old[0], old[1], undefined, old[2]];
      const before = new FragmentIdentities(
        (decode(messages.manifest, sectionsOf(bytes).message).fragments ?? []).at(-1)!,
      );
      const places = updated().map((place) => place && before.at(place.offset).id);
      const replaced = await dataset.replaceRows(tracked, old, { file: file(rows), rows: rows.length }, { updated });
      assert.ok(typeof replaced === 'object', String(replaced));
      const table = await (await connect(folder)).openTable('t');
      const found = await table.query().select(['id', '_rowid']).where(`id >= ${rows[0]}`).toArray();
      let next = nextRowId;
      const expected = rows.map((id, index) => [id, places[index] ?? next++]);
      assert.deepEqual(
        found.map(({ id, _rowid }) => [Number(id), Number(_rowid)]),
        expected,
      );
    }
  });

  test('are read as they were written, whatever lies between them', () => {
    for (const between of [2 ** 16 - 1, 2 ** 16, 2 ** 32 - 1, 2 ** 32, 2 ** 45]) {
      for (const ids of [
        [3, 3 + between],
        [3 + between, 3],
      ]) {
        const rows = new FragmentIdentities(fragmentOf(2, encodeNumbers(ids)));
        assert.deepEqual([rows.at(0).id, rows.at(1).id], ids);
      }
    }
  });

  test('beyond those that are exact are not read as others (P1)', () => {
    const offsets = Buffer.alloc(8, 255);
    const ofEightBytes = encode(messages.numberArray, { offsets });
    const ids = sequence({ array: encode(messages.numberArrays, { ofEightBytes }) });
    assert.throws(() => new FragmentIdentities(fragmentOf(1, ids)).at(0), { name: 'MalformedFile' });
  });

  test('have versions for as many rows, or none, and then count as being from the first (P1, P12)', () => {
    const rowIds = sequence({ range: range(0, 3) });
    const versions = (count: number) => {
      const span = encode(messages.segment, { range: range(0, count) });
      return encode(messages.rowVersions, { runs: [encode(messages.rowVersionRun, { span, version: 5 })] });
    };
    const withVersions = (created: number, updated: number) =>
      encode(messages.fragment, {
        ...{ physicalRows: 3, rowIds },
        ...{ createdAtVersions: versions(created), updatedAtVersions: versions(updated) },
      });
    requireIdentities(withVersions(3, 3), 10);
    for (const [created, updated] of [[2, 3] as const, [3, 2] as const, [3, 4] as const]) {
      assert.throws(() => requireIdentities(withVersions(created, updated), 10), { name: 'MalformedFile' });
    }
    assert.deepEqual(new FragmentIdentities(withVersions(3, 3)).at(1), { id: 1, createdAt: 5 });
    assert.deepEqual(new FragmentIdentities(fragmentOf(3, rowIds)).at(1), { id: 1, createdAt: 1 });
  });

  const damaged: Readonly<Record<string, Uint8Array>> = {
    'fewer than there are rows': sequence({ range: range(0, 2) }),
    'more than there are rows': sequence({ range: range(0, 4) }),
    'many more than there are rows': sequence({ range: range(0, 2 ** 52) }),
    'a range that ends before it begins': sequence({ range: range(9, 6) }, { range: range(0, 6) }),
    'no kind of segment': sequence({}, { range: range(0, 3) }),
    'a bitmap that is too short': sequence({ rangeWithBitmap: withRest(0, 9, Buffer.of(7)) }),
    'a bitmap with bits past its range': sequence({ rangeWithBitmap: withRest(0, 3, Buffer.of(0b1110)) }),
    'a bitmap that is too long': sequence({ rangeWithBitmap: withRest(0, 9, Buffer.of(7, 0, 0)) }),
    'holes outside the range': sequence({ rangeWithHoles: withRest(0, 4, ofTwoBytes(4, 0)) }),
    'holes out of order': sequence({ rangeWithHoles: withRest(0, 5, ofTwoBytes(0, 2, 1)) }),
    'a hole that comes twice': sequence({ rangeWithHoles: withRest(0, 5, ofTwoBytes(0, 2, 2)) }),
    'holes that end early': sequence({
      rangeWithHoles: withRest(0, 4, ofFourBytes(Buffer.of(1, 0, 0, 0, 1))),
    }),
    'an array that ends early': sequence({
      array: ofFourBytes(Buffer.alloc(13)),
    }),
    'a number beyond those that are exact': sequence({
      array: encode(messages.numberArrays, {
        ofEightBytes: encode(messages.numberArray, { offsets: Buffer.alloc(24, 255) }),
      }),
    }),
    'one that is yet to be given': sequence({ array: ofTwoBytes(8, 0, 1, 2) }),
    'what is no sequence': Buffer.from('anything'),
  };
  for (const [what, rowIds] of Object.entries(damaged)) {
    test(`are refused where they are ${what} (P1, P12)`, () => {
      assert.throws(() => requireIdentities(fragmentOf(3, rowIds), 10), { name: 'MalformedFile' });
      requireIdentities(fragmentOf(3, sequence({ range: range(7, 10) })), 10);
    });
  }
});
