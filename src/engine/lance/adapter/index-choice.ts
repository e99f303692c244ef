/**
 * Whether a merge looks its keys up in their index or reads the key column of the whole table: the result is the same, and
 * the engine takes the index wherever there is one. But with it, it reads all columns of the rows it finds and of every row
 * that no index covers, and throws away what is not a key; without it, it reads the keys of all rows and nothing else. So
 * for rows with vectors the index is the slower way for large batches, and for small ones as soon as some thousands of rows
 * are not in it.
 *
 * An estimate from sizes in the manifest: an error costs time, and little where both ways take nearly the same.
 */

import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import {
  type Manifest,
  parseManifest,
  type StoredIndex,
  sectionsOf,
} from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import { valuesOfBitmap } from '../../../lance-format/roaring.ts';
import type { ChangeStep } from '../../port/change.ts';
import type { MergeSpec } from '../../port/merge-spec.ts';

/** What a choice goes by. */
interface Sizes {
  /** Deleted ones included: they are read as well. */
  readonly rows: number;
  readonly rowBytes: number;
  /** What the index takes for a row: the key, and little else. */
  readonly keyBytes: number;
  readonly uncoveredRows: number;
  readonly uncoveredFragments: number;
}

/** Each is in nanoseconds of processor time, and was measured. */
const cost = {
  /** Opening one more fragment with all its columns. */
  uncoveredFragment: 150_000,
  uncoveredRow: 50,
  uncoveredByte: 1.5,
  /** The source's rows that are found, half of them as a rule, are read one by one. */
  sourceByte: 10,
  fullRead: 3_000_000,
  key: 50,
  keyByte: 5,
} as const;

export class IndexChoice {
  readonly #versionsFolder: string;
  /** The last ones: one merge asks twice. */
  #seen: { readonly version: number; readonly column: string; readonly sizes: Sizes | undefined } | undefined;

  constructor(versionsFolder: string) {
    this.#versionsFolder = versionsFolder;
  }

  /** The step as it is to be made of the version. */
  chosen(step: ChangeStep, version: number, file: IpcFile | undefined): ChangeStep {
    if (step.kind !== 'merge') return step;
    return { ...step, spec: { ...step.spec, useIndex: this.usesIndex(step.spec, version, file?.length ?? 0) } };
  }

  /** For a merge of so many bytes into the version; false as well where the request forbids the index. */
  usesIndex({ on, useIndex, whenNotMatchedBySourceDelete }: MergeSpec, version: number, sourceBytes: number): boolean {
    const [column, ...others] = on;
    const isOpen = useIndex && others.length === 0 && whenNotMatchedBySourceDelete === false;
    if (!isOpen || column === undefined) return useIndex;
    const sizes = this.#sizesAt(version, column);
    return sizes === undefined || costWithIndex(sizes, sourceBytes) <= costWithout(sizes);
  }

  /** undefined where there is nothing to choose, or not enough is known. */
  #sizesAt(version: number, column: string): Sizes | undefined {
    if (this.#seen?.version !== version || this.#seen.column !== column) {
      this.#seen = { version, column, sizes: readSizes(this.#versionsFolder, version, column) };
    }
    return this.#seen.sizes;
  }
}

const costWithIndex = ({ uncoveredRows, uncoveredFragments, rowBytes }: Sizes, sourceBytes: number): number =>
  uncoveredFragments * cost.uncoveredFragment +
  uncoveredRows * (cost.uncoveredRow + rowBytes * cost.uncoveredByte) +
  sourceBytes * cost.sourceByte;

const costWithout = ({ rows, keyBytes }: Sizes): number => cost.fullRead + rows * (cost.key + keyBytes * cost.keyByte);

/** A manifest in a form that is not known here is no reason to refuse a merge. */
function readSizes(versionsFolder: string, version: number, column: string): Sizes | undefined {
  const file = readManifest(versionsFolder, version);
  if (file === undefined) return undefined;
  try {
    const hasIndexes = sectionsOf(file.bytes).indexes !== undefined;
    return hasIndexes ? sizesIn(parseManifest(file.bytes), column) : undefined;
  } catch (error) {
    if (error instanceof MalformedFile) return undefined;
    throw error;
  }
}

function sizesIn(manifest: Manifest, column: string): Sizes | undefined {
  const index = indexOn(manifest, column);
  if (index?.coverage === undefined) return undefined;
  const { fragments, files } = manifest;
  const covered = new Set(valuesOfBitmap(index.coverage));
  const uncovered = fragments.filter(({ id }) => !covered.has(id));
  const rows = sumOf(fragments.map((fragment) => fragment.rows));
  const uncoveredRows = sumOf(uncovered.map((fragment) => fragment.rows));
  const bytes = sumOf(files.map(({ kind, sizeBytes }) => (kind === 'data' ? (sizeBytes ?? 0) : 0)));
  return {
    rows,
    rowBytes: bytes / Math.max(1, rows),
    keyBytes: index.bytes / Math.max(1, rows - uncoveredRows),
    uncoveredRows,
    uncoveredFragments: uncovered.length,
  };
}

function indexOn({ fieldIds, indexes }: Manifest, column: string): StoredIndex | undefined {
  const id = fieldIds.get(column);
  return indexes.find(({ fieldIds: ids }) => ids.length === 1 && ids[0] === id);
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0);
