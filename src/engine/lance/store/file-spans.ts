import type { FileKind, FileReference, Manifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { takesAway } from '../../../lance-format/transaction/transaction.ts';

/** A span goes from the first version that names a file to the last. */
interface Span {
  first: number;
  last: number;
  readonly bytes: number;
}

/** What stays known of a version whose manifest was read. */
interface SeenVersion {
  /** That of its manifest in a listing. */
  readonly tag: string;
  readonly rows: number;
  /** undefined where its transaction does not say. */
  readonly takesAway: boolean | undefined;
}

export interface SpannedFile {
  /** Relative to the folder of the branch. */
  readonly within: string;
  readonly bytes: number;
}

/** A branch has these files in folders of its own. */
const folderOf: Readonly<Partial<Record<FileKind, string>>> = {
  data: 'data',
  deletions: '_deletions',
  transaction: '_transactions',
  index: '_indices',
};

/** Manifests do not say how long deletion vectors and transactions are: mostly, one block of a disk. */
const bytesOfSmallFile = 4_096;

/**
 * Which versions of a branch name which of its own files, by what was read of them so far: so each manifest is read once, however long the
 * version stays. Between the first and the last version that names a file, all count as naming it: a restored version may have it again.
 */
export class FileSpans {
  readonly #spans = new Map<string, Span>();
  readonly #seen = new Map<number, SeenVersion>();

  get size(): number {
    return this.#spans.size + this.#seen.size;
  }

  has(version: number): boolean {
    return this.#seen.has(version);
  }

  /** Whether another manifest than that of this tag was read: then another table or branch is in the place of the one that was known. */
  isOther(version: number, tag: string): boolean {
    return (this.#seen.get(version)?.tag ?? tag) !== tag;
  }

  add(version: number, tag: string, manifest: Manifest, transaction: Uint8Array | undefined): void {
    const rows = manifest.fragments.reduce((sum, fragment) => sum + fragment.rows - fragment.deletedRows, 0);
    this.#seen.set(version, { tag, rows, takesAway: transaction && takesAway(transaction) });
    for (const { within, bytes } of ownFilesOf(manifest)) {
      const span = this.#spans.get(within) ?? { first: version, last: version, bytes };
      span.first = Math.min(span.first, version);
      span.last = Math.max(span.last, version);
      this.#spans.set(within, span);
    }
  }

  /** Whether the commit took something away, as its transaction says; where that says nothing, whether it left fewer rows. */
  takesAway(version: number): boolean {
    const [made, before] = [this.#seen.get(version), this.#seen.get(version - 1)];
    if (made === undefined) return false;
    return made.takesAway ?? (before !== undefined && made.rows < before.rows);
  }

  names(within: string): boolean {
    return this.#spans.has(within);
  }

  /** The files that none of `stay` names, by the last of `gone` that names them, or 0. Both ascend. */
  filesBeside(stay: readonly number[], gone: readonly number[]): ReadonlyMap<number, readonly SpannedFile[]> {
    const [staying, going] = [stay, gone].map((versions) => versions.filter((version) => this.has(version)));
    const files = new Map<number, SpannedFile[]>();
    for (const [within, span] of this.#spans) {
      if (lastIn(staying ?? [], span) !== 0) continue;
      const version = lastIn(going ?? [], span);
      const file = { within, bytes: span.bytes };
      const same = files.get(version);
      if (same === undefined) files.set(version, [file]);
      else same.push(file);
    }
    return files;
  }

  /** They are about to be removed. */
  forget(versions: readonly number[], files: readonly SpannedFile[]): void {
    for (const version of versions) this.#seen.delete(version);
    for (const { within } of files) this.#spans.delete(within);
  }

  clear(): void {
    this.#spans.clear();
    this.#seen.clear();
  }
}

/** A folder of an index whose files are not listed ends with a slash. */
export function ownFilesOf({ files, indexFolders }: Manifest): readonly SpannedFile[] {
  const listed = files.map((file) => ({ ...file, end: '' }));
  const unlisted = indexFolders.map((folder) => ({ ...folder, end: '/' }));
  return [...listed, ...unlisted].flatMap(({ end, ...file }) => {
    const within = file.baseId === undefined ? withinBranch(file) : undefined;
    return within === undefined ? [] : [{ within: `${within}${end}`, bytes: file.sizeBytes ?? bytesOfSmallFile }];
  });
}

/** The path in the folder of the branch that has the file. undefined where no such folder is known. */
export function withinBranch({ kind, path }: FileReference): string | undefined {
  const folder = folderOf[kind];
  return folder === undefined || path.split('/').includes('..') ? undefined : `${folder}/${path}`;
}

/** 0 without any. */
function lastIn(ascending: readonly number[], { first, last }: Span): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] ?? 0) <= last) low = middle + 1;
    else high = middle;
  }
  const found = ascending[low - 1] ?? 0;
  return found >= first ? found : 0;
}
