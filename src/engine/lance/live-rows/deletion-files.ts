/** The files in which deletion vectors lie, as Lance and this service write them. */
import { readFileSync } from 'node:fs';
import { ownFile } from '../../../arrow/format/ipc-file.ts';
import { chunkOfFile } from '../../../arrow/stream/ipc-chunks.ts';
import { readKeyColumn } from '../../../keys/key-values.ts';
import { deletionsPath } from '../../../lance-format/manifest/manifest-files.ts';
import type { DeletionFile } from '../../../lance-format/manifest/next-manifest.ts';
import type { Manifest, StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import { valuesOfBitmap } from '../../../lance-format/roaring.ts';

/**
 * The offsets of a fragment's deleted rows, in any order. Synchronous: the file was just written or is about to be used, so it is
 * in memory. Throws if it is gone, on other storage or not as the manifest says.
 */
export function readDeletedOffsets(
  manifest: Manifest,
  branchFolder: string,
  { deletions, deletedRows }: StoredFragment,
): Uint32Array {
  if (deletions === undefined) return new Uint32Array(0);
  const path = deletionsPath(manifest, branchFolder, deletions);
  if (path === undefined) throw new MalformedFile('deletions on other storage');
  const file = readFileSync(path);
  const offsets = path.endsWith('.bin') ? valuesOfBitmap(file) : listedOffsets(file);
  if (offsets.length !== deletedRows) throw new MalformedFile(`${offsets.length} deletions, not ${deletedRows}`);
  return offsets;
}

/** An Arrow file of one column of numbers with 32 bits. */
function listedOffsets(file: Buffer): Uint32Array {
  const chunk = chunkOfFile(ownFile(file));
  const { bytes } = readKeyColumn(chunk, { segments: ['row_id'] }).values;
  if (bytes.length !== chunk.rows * Uint32Array.BYTES_PER_ELEMENT) throw new MalformedFile('deletions of another type');
  return new Uint32Array(Uint8Array.from(bytes).buffer);
}

/** The file of a new deletion vector, in the folder of the branch. */
export const deletionsFile = (fragment: number, { readVersion, id }: DeletionFile): string =>
  `_deletions/${fragment}-${readVersion}-${id}.bin`;
