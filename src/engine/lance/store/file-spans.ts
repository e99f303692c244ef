import {
  type FileKind,
  type FileReference,
  type Manifest,
  parseManifest,
} from '../../../lance-format/manifest/parse-manifest.ts';

/** A span goes from the first version that names a file to the last. */
interface Span {
  first: number;
  last: number;
  readonly bytes: number;
}

/** A branch has these files in folders of its own. */
const folderOf: Readonly<Partial<Record<FileKind, string>>> = {
  data: 'data',
  deletions: '_deletions',
  transaction: '_transactions',
  index: '_indices',
};

/**
 * Which versions of a branch name which of its own files, by what was read of them so far: so each manifest is read once. Between the
 * first and the last version that names a file, all count as naming it: a restored version may have it again.
 */
export class FileSpans {
  readonly #spans = new Map<string, Span>();
  readonly #seen = new Set<number>();

  has(version: number): boolean {
    return this.#seen.has(version);
  }

  add(version: number, manifest: Buffer): void {
    this.#seen.add(version);
    for (const { within, bytes } of ownFilesOf(parseManifest(manifest))) {
      const span = this.#spans.get(within) ?? { first: version, last: version, bytes };
      span.first = Math.min(span.first, version);
      span.last = Math.max(span.last, version);
      this.#spans.set(within, span);
    }
  }

  names(within: string): boolean {
    return this.#spans.has(within);
  }

  /** The files that none of these versions names; forgotten with the versions that are gone. `kept`: ascending. */
  takeUnnamed(kept: readonly number[], gone: readonly number[]): ReadonlyMap<string, number> {
    const unnamed = new Map<string, number>();
    for (const [within, { first, last, bytes }] of this.#spans) {
      if (isAnyWithin(kept, first, last)) continue;
      unnamed.set(within, bytes);
      this.#spans.delete(within);
    }
    for (const version of gone) this.#seen.delete(version);
    return unnamed;
  }

  clear(): void {
    this.#spans.clear();
    this.#seen.clear();
  }
}

/** Paths relative to the folder of the branch. A folder of an index whose files are not listed ends with a slash. */
export function ownFilesOf({ files, indexFolders }: Manifest): readonly { within: string; bytes: number }[] {
  const listed = files.map((file) => ({ ...file, end: '' }));
  const unlisted = indexFolders.map((folder) => ({ ...folder, end: '/' }));
  return [...listed, ...unlisted].flatMap(({ end, ...file }) => {
    const within = file.baseId === undefined ? withinBranch(file) : undefined;
    return within === undefined ? [] : [{ within: `${within}${end}`, bytes: file.sizeBytes ?? 0 }];
  });
}

/** The path in the folder of the branch that has the file. undefined where no such folder is known. */
export function withinBranch({ kind, path }: FileReference): string | undefined {
  const folder = folderOf[kind];
  return folder === undefined || path.split('/').includes('..') ? undefined : `${folder}/${path}`;
}

function isAnyWithin(ascending: readonly number[], first: number, last: number): boolean {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! < first) low = middle + 1;
    else high = middle;
  }
  const next = ascending[low];
  return next !== undefined && next <= last;
}
