import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type Manifest, parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import { addressOf, type RowAddressSql } from '../../port/row-address.ts';
import { readDeletedOffsets } from './deletion-files.ts';

/** Some 5 ms of work, after which other work of the event loop comes first (P10). */
const fragmentsPerTurn = 32;

/** Rows of one fragment. */
interface FragmentRows {
  readonly id: number;
  readonly offsets: Iterable<number>;
}

/**
 * The rows that one commit removed, or those that it added, by the manifests before and after it and the deletion vectors that
 * they name. An update does both: it deletes its row and writes it anew in a new fragment.
 *
 * Reads two manifests and the deletion vectors of the fragments that the commit touched, some 0.1 ms each, and asks the engine
 * nothing. undefined where a file is gone, on other storage or in an unknown form.
 */
export async function changedRows(
  versionsFolder: string,
  version: number,
  change: 'removed' | 'added',
): Promise<readonly RowAddressSql[] | undefined> {
  try {
    const [before, after] = [manifestOf(versionsFolder, version - 1), manifestOf(versionsFolder, version)];
    const branchFolder = dirname(versionsFolder);
    const changed =
      change === 'removed' ? removals(before, after, branchFolder) : additions(before, after, branchFolder);
    const rows: RowAddressSql[] = [];
    let fragments = 0;
    for (const { id, offsets } of changed) {
      for (const offset of offsets) rows.push(addressOf({ fragment: id, offset }));
      fragments += 1;
      if (fragments % fragmentsPerTurn === 0) await setImmediate();
    }
    return rows;
  } catch {
    // Whatever is in the way, a search finds the same rows, and the metrics show that there was one.
    return undefined;
  }
}

function* removals(before: Manifest, after: Manifest, branchFolder: string): Iterable<FragmentRows> {
  const staying = new Map(after.fragments.map((fragment) => [fragment.id, fragment]));
  for (const fragment of before.fragments) {
    const next = staying.get(fragment.id);
    if (next !== undefined && next.deletions?.path === fragment.deletions?.path) continue;
    const deleted = deletedIn(before, branchFolder, fragment);
    const offsets = next === undefined ? deleted.living() : deletedIn(after, branchFolder, next).addedSince(deleted);
    yield { id: fragment.id, offsets };
  }
}

/** New rows are in new fragments: no commit adds rows to one that is there. */
function* additions(before: Manifest, after: Manifest, branchFolder: string): Iterable<FragmentRows> {
  const old = new Set(before.fragments.map(({ id }) => id));
  for (const fragment of after.fragments) {
    if (!old.has(fragment.id)) yield { id: fragment.id, offsets: deletedIn(after, branchFolder, fragment).living() };
  }
}

function manifestOf(versionsFolder: string, version: number): Manifest {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) throw new MalformedFile(`no manifest of version ${version}`);
  return parseManifest(found.bytes);
}

const deletedIn = (manifest: Manifest, branchFolder: string, fragment: StoredFragment): DeletionVector =>
  DeletionVector.of(fragment.rows, readDeletedOffsets(manifest, branchFolder, fragment));
