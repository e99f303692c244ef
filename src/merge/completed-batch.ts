/**
 * Fields of structs that a client does not send: an update leaves them as they are in the table. So the rows of the table are read
 * before, and what they hold there goes into the rows of the source, whose structs are whole then, whatever computes the merge.
 */

import { completeStructs, type StoredStructs } from '../arrow/column/completed-structs.ts';
import { concatRows } from '../arrow/column/concat-rows.ts';
import { isEncoded } from '../arrow/column/fitted-rows.ts';
import { refuseColumn } from '../arrow/schema/field-path.ts';
import { type AbsentField, absentFields, targetOf } from '../arrow/schema/fitted-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { chunkOfFile } from '../arrow/stream/ipc-chunks.ts';
import { LancegateError } from '../kernel/errors.ts';
import { readKeys, sqlFieldPath } from '../keys/key-columns.ts';
import { Batch } from './batch.ts';
import type { ReadColumns } from './key-index/key-lookup.ts';
import type { MergeFlags } from './merge-command.ts';

/** Those that a merge with these flags keeps. `TableSchemaValidationError` where it could not. */
export function fieldsToKeep(source: Schema, table: Schema, flags: MergeFlags): readonly AbsentField[] {
  if (flags.whenMatchedUpdateAll === false) return [];
  const absent = absentFields(source, table);
  for (const column of source.fields) {
    const target = targetOf(column, table);
    if (target === undefined || !isEncoded(target) || !absent.some(({ path }) => path.segments[0] === column.name))
      continue;
    throw refuseColumn([column.name], 'holds dictionary-encoded fields, so an update needs all its fields');
  }
  return absent;
}

/** The batch with whole structs; the same one if nothing is absent. `read` gives at least the rows of the table that have a key of it. */
export async function completeBatch(sent: Batch, read: ReadColumns): Promise<Batch> {
  if (sent.isComplete) return sent;
  const { first, isByKeys, hasher } = sent;
  const chunk = completeStructs(first.chunk, first.absent, await readStored(sent, read));
  return new Batch([{ ...first, chunk, absent: [] }], isByKeys, hasher);
}

/** They are in memory together with the rows of the source. */
const mostStoredBytes = 256 * 2 ** 20;

async function readStored(batch: Batch, read: ReadColumns): Promise<StoredStructs> {
  const { first, hasher } = batch;
  const names = [...new Set(first.absent.flatMap(({ path }) => path.segments.slice(0, 1)))];
  const keyColumns = first.on.map((path, i) => ({ name: `key_${i}`, expression: sqlFieldPath(path) }));
  const structs = names.map((name) => ({ name, expression: sqlFieldPath({ segments: [name] }) }));
  const keyPaths = keyColumns.map(({ name }) => ({ segments: [name] }));
  const parts: IpcChunk[] = [];
  /** It has for each key of the batch its row among those that were read, or -1. */
  const rowOfKey = new Int32Array(batch.keys.size).fill(-1);
  let rows = 0;
  let bytes = 0;
  for await (const file of read([...keyColumns, ...structs])) {
    const chunk = chunkOfFile(file);
    const keys = readKeys(chunk, keyPaths);
    const digests = await hasher.digest(keys);
    const keep = new Uint8Array(chunk.rows);
    for (let row = 0; row < chunk.rows; row++) {
      const key = keys.isNull(row) ? -1 : batch.keys.indexOf(digests, row);
      if (key === -1 || rowOfKey[key] !== -1) continue;
      rowOfKey[key] = rows++;
      keep[row] = 1;
    }
    if (!keep.includes(1)) continue;
    const kept = concatRows([{ chunk, keep }]);
    bytes += kept.decodedBytes;
    if (bytes > mostStoredBytes) throw tooMuchStored(names);
    parts.push(kept);
  }
  const rowOf = batch.keyOf(0).map((key) => (key === -1 ? -1 : (rowOfKey[key] ?? -1)));
  return {
    rows: parts.length === 0 ? undefined : concatRows(parts.map((chunk) => ({ chunk, keep: undefined }))),
    rowOf,
  };
}

const tooMuchStored = (names: readonly string[]): LancegateError =>
  new LancegateError(
    'BodyTooLarge',
    `the rows to update hold more than ${mostStoredBytes} bytes in ${names.join(', ')}: send fewer at a time, or all fields`,
  );
