/**
 * Which rows one commit took away and which it brought, told by the manifests before and after it and by the files of
 * deleted rows they name. An update does both: its row is deleted where it was and written anew in a new fragment.
 *
 * It costs the reading of two manifests and of the deletions in every fragment that the commit touched, some 0.1 ms each,
 * and asks the engine nothing. What it does not know it does not guess: undefined for datasets whose rows have identifiers
 * of their own, and where a file is gone, elsewhere or in a form that is not known here.
 */
import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type Manifest, parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import { addressOf, type RowAddressSql } from '../../port/row-address.ts';
import { readDeletedOffsets } from './live-rows.ts';

/** Some 5 ms of work, after which others have a turn of the event loop (P10). */
const fragmentsPerTurn = 32;

export async function changedRows(
  versionsFolder: string,
  version: number,
  change: 'removed' | 'added',
): Promise<readonly RowAddressSql[] | undefined> {
  try {
    const [before, after] = [manifestOf(versionsFolder, version - 1), manifestOf(versionsFolder, version)];
    if ([...before.fragments, ...after.fragments].some(({ hasRowIds }) => hasRowIds)) return undefined;
    const files = new DeletionFiles(dirname(versionsFolder));
    const changed = change === 'removed' ? removals(before, after, files) : additions(before, after, files);
    const rows: RowAddressSql[] = [];
    let fragments = 0;
    for (const { id, offsets } of changed) {
      for (const offset of offsets) rows.push(addressOf({ fragment: id, offset }));
      fragments += 1;
      if (fragments % fragmentsPerTurn === 0) await setImmediate();
    }
    return rows;
  } catch {
    // Whatever is in the way, a search finds the same; that it comes to that shows in the metrics.
    return undefined;
  }
}

/** Rows of one fragment. */
interface OffsetsOfFragment {
  readonly id: number;
  readonly offsets: Iterable<number>;
}

function* removals(before: Manifest, after: Manifest, files: DeletionFiles): Iterable<OffsetsOfFragment> {
  const staying = new Map(after.fragments.map((fragment) => [fragment.id, fragment]));
  for (const fragment of before.fragments) {
    const next = staying.get(fragment.id);
    const offsets =
      next === undefined ? files.living(before, fragment) : files.newlyDeleted(before, fragment, after, next);
    yield { id: fragment.id, offsets };
  }
}

/** New rows are in new fragments: none is ever added to one that is there. */
function* additions(before: Manifest, after: Manifest, files: DeletionFiles): Iterable<OffsetsOfFragment> {
  const old = new Set(before.fragments.map(({ id }) => id));
  for (const fragment of after.fragments) {
    if (!old.has(fragment.id)) yield { id: fragment.id, offsets: files.living(after, fragment) };
  }
}

function manifestOf(versionsFolder: string, version: number): Manifest {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) throw new MalformedFile(`no manifest of version ${version}`);
  return parseManifest(found.bytes);
}

class DeletionFiles {
  readonly #branchFolder: string;

  constructor(branchFolder: string) {
    this.#branchFolder = branchFolder;
  }

  *living(manifest: Manifest, fragment: StoredFragment): Iterable<number> {
    const isDeleted = marksOf(this.#deleted(manifest, fragment), fragment.rows);
    for (const [offset, mark] of isDeleted.entries()) if (mark === 0) yield offset;
  }

  *newlyDeleted(from: Manifest, before: StoredFragment, to: Manifest, after: StoredFragment): Iterable<number> {
    if (before.deletions?.path === after.deletions?.path) return;
    const wasDeleted = marksOf(this.#deleted(from, before), before.rows);
    for (const offset of this.#deleted(to, after)) if (wasDeleted[offset] === 0) yield offset;
  }

  #deleted(manifest: Manifest, fragment: StoredFragment): Uint32Array {
    return readDeletedOffsets(manifest, this.#branchFolder, fragment);
  }
}

function marksOf(offsets: Uint32Array, rows: number): Uint8Array {
  const marks = new Uint8Array(rows);
  for (const offset of offsets) marks[offset] = 1;
  return marks;
}
