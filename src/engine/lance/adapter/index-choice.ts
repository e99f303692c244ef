/**
 * Whether a merge looks its keys up in their index or reads the key column of the whole table: the result is the same, and
 * the engine takes the index wherever there is one. But with it, it reads all columns of the rows it finds and of every row
 * that no index covers, and throws away what is not a key; without it, it reads the keys of all rows and nothing else. So
 * for rows with vectors the index is the slower way for large groups, and for small ones as soon as some thousands of rows
 * are not in it: 6,400 rows of 2 KB into 100,000 took 285 ms with the index and 190 without, and when 300,000 more were not
 * in it, 760 and 130 (docs/adr/0013).
 *
 * An estimate from sizes in the manifest: being wrong costs time, and little where both ways take nearly the same.
 */
import { valuesOfBitmap } from '../../../lance-format/deletion/roaring.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type Manifest, parseManifest, type StoredIndex } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { MergeCounts, MergeSpec } from '../../port/merge-spec.ts';

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

interface Seen {
  readonly version: number;
  readonly column: string;
  /** undefined where there is nothing to choose, or not enough is known. */
  readonly sizes: Sizes | undefined;
}

/**
 * In nanoseconds of processor time: merges of 2 to 6,400 rows of 24 to 2,000 bytes into 100,000 to 2 million (two cores,
 * local ext4).
 */
const cost = {
  /** Opening one more fragment with all its columns. */
  uncoveredFragment: 150_000,
  uncoveredRow: 50,
  uncoveredByte: 1.5,
  /** Half of the source's rows are found, as a rule; a row by itself is read at 15 to 25 for a byte. */
  sourceByte: 10,
  fullRead: 3_000_000,
  key: 50,
  keyByte: 5,
} as const;

export class IndexChoice {
  readonly #versionsFolder: string;
  #seen: Seen | undefined;

  constructor(versionsFolder: string) {
    this.#versionsFolder = versionsFolder;
  }

  /** For a merge of so many bytes into the version; false as well where the request forbids the index. */
  usesIndex(spec: MergeSpec, version: number, sourceBytes: number): boolean {
    return this.#isFaster(spec, version, (sizes) => costWithIndex(sizes, sourceBytes));
  }

  /** Whether it would, were the index built anew. */
  gainsByIndex(spec: MergeSpec, version: number, sourceBytes: number): boolean {
    return this.#isFaster(spec, version, () => costWithFreshIndex(sourceBytes));
  }

  #isFaster(
    { on, useIndex, whenNotMatchedBySourceDelete }: MergeSpec,
    version: number,
    costOf: (sizes: Sizes) => number,
  ): boolean {
    const [column, ...others] = on;
    const isOpen = useIndex && others.length === 0 && whenNotMatchedBySourceDelete === false;
    if (!isOpen || column === undefined) return useIndex;
    const sizes = this.#sizesAt(version, column);
    return sizes === undefined || costOf(sizes) <= costWithout(sizes);
  }

  /** After a merge, which spares the reading of its manifest. */
  merged({ version, numInsertedRows, numUpdatedRows }: MergeCounts): void {
    const seen = this.#seen;
    if (seen?.version !== version - 1) return;
    this.#seen = { ...seen, version, sizes: seen.sizes && withFragment(seen.sizes, numInsertedRows + numUpdatedRows) };
  }

  #sizesAt(version: number, column: string): Sizes | undefined {
    if (this.#seen?.version !== version || this.#seen.column !== column) {
      this.#seen = { version, column, sizes: readSizes(this.#versionsFolder, version, column) };
    }
    return this.#seen.sizes;
  }
}

function withFragment(sizes: Sizes, rows: number): Sizes {
  const { rows: before, uncoveredRows, uncoveredFragments } = sizes;
  return {
    ...sizes,
    rows: before + rows,
    uncoveredRows: uncoveredRows + rows,
    uncoveredFragments: uncoveredFragments + Math.sign(rows),
  };
}

const costWithIndex = ({ uncoveredRows, uncoveredFragments, rowBytes }: Sizes, sourceBytes: number): number =>
  uncoveredFragments * cost.uncoveredFragment +
  uncoveredRows * (cost.uncoveredRow + rowBytes * cost.uncoveredByte) +
  costWithFreshIndex(sourceBytes);

const costWithFreshIndex = (sourceBytes: number): number => sourceBytes * cost.sourceByte;

const costWithout = ({ rows, keyBytes }: Sizes): number => cost.fullRead + rows * (cost.key + keyBytes * cost.keyByte);

/** A manifest in a form that is not known here is no reason to refuse a merge. */
function readSizes(versionsFolder: string, version: number, column: string): Sizes | undefined {
  const file = readManifest(versionsFolder, version);
  if (file === undefined) return undefined;
  try {
    return sizesIn(parseManifest(file.bytes), column);
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
