/**
 * What this process knows of a branch on an object store: a local folder with the manifests of the last versions and the deletion
 * vectors of the newest, under the names that they have in the branch. So whatever reads manifests reads them as on a file system, at
 * once. Rows and indexes are on the store alone. Nothing is lost with the folder.
 *
 * Versions of this process are put into it by the commit; those of others are looked for by `refresh`.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LancegateError } from '../../../kernel/errors.ts';
import { fenceVersion } from '../../../lance-format/manifest/manifest-changes.ts';
import {
  branchFolder,
  deletionsPath,
  listVersions,
  manifestNames,
  namesIn,
  nextManifestName,
  readManifest,
  versionOfManifestKey,
  versionOfManifestName,
} from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion } from '../../../lance-format/manifest/next-manifest.ts';
import { parseManifest, transactionIn } from '../../../lance-format/manifest/parse-manifest.ts';
import { fenceProperty } from '../../port/change.ts';
import type { TableColumns } from '../../port/column-view.ts';
import { nothingStored, translateEngineError } from '../native/translate-errors.ts';
import { FileSpans } from './file-spans.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';

/**
 * A version stays on the store for longer (`numberTakenMs` of `prune-versions.ts`), so the number after one that was seen within this time
 * is free only if no one has taken it.
 */
export const knownForMs = 10 * 60_000;

/** Commits of others are followed through so many versions (`transactionsBetween`). */
const mostVersions = 64;
const commitsPerSweep = 16;
/** What other programs stage beside the newest manifest may come before it in a listing. */
const namesBefore = 8;

export interface MirroredBranch {
  readonly store: ObjectStore;
  /** All keys of the dataset begin with it; it ends with a slash. */
  readonly datasetPrefix: string;
  /** The engine finds the dataset there. */
  readonly datasetUri: string;
  /** The dataset's folder in the mirror. */
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly fresh: { nowMs(): number; uuid(): string };
}

export interface VersionColumns extends TableColumns {
  readonly version: number;
}

/** The newest version that is known. */
interface Newest {
  readonly version: number;
  readonly bytes: number;
  /** undefined for a version of this process that no listing has shown yet. */
  readonly tag: string | undefined;
}

export class BranchMirror {
  readonly store: ObjectStore;
  /** All keys of the branch begin with it; it ends with a slash. */
  readonly prefix: string;
  /** The engine finds the branch there. */
  readonly uri: string;
  /** The local folder. */
  readonly folder: string;
  readonly versionsFolder: string;
  /** It has the versions that a removal of old ones has read. */
  readonly spans = new FileSpans();
  orphansSearchedAtMs = 0;
  readonly firstToGo = 'manifests';
  readonly datasetPrefix: string;
  readonly #branch: string | undefined;
  #columns: VersionColumns | undefined;
  #newest: Newest | undefined;
  /** False once another program may have made a version that is not known. */
  #isTrusted = false;
  #knownAt = { wallMs: 0, monotonicMs: 0 };
  /** A version of this process may be made later: whether its write arrives is not known. */
  #unsettled: number | undefined;
  readonly #fresh: MirroredBranch['fresh'];
  #hasDeletions = false;
  #commits = 0;
  #incarnation = 0;

  constructor({ store, datasetPrefix, datasetUri, datasetPath, branch, fresh }: MirroredBranch) {
    this.store = store;
    this.datasetPrefix = datasetPrefix;
    this.#branch = branch;
    this.#fresh = fresh;
    this.prefix = branch === undefined ? datasetPrefix : `${datasetPrefix}tree/${branch}/`;
    this.uri = branch === undefined ? datasetUri : `${datasetUri}/tree/${branch}`;
    this.folder = branchFolder(datasetPath, branch);
    this.versionsFolder = join(this.folder, '_versions');
  }

  /** Another number once another table or branch has taken the place of the one that was known. */
  get incarnation(): number {
    return this.#incarnation;
  }

  /** Other versions than the known ones may be there. */
  distrust(): void {
    this.#isTrusted = false;
  }

  /** Whether this process has made the version is not known. The next look takes its number, if that is still free. */
  unsettled(version: number): void {
    this.#unsettled = version;
    this.#isTrusted = false;
  }

  /** Takes the number after a version that is in the mirror: afterwards no write that began before can make it. */
  async fence(after: number): Promise<void> {
    const head = await this.take(after);
    if (head === undefined) return;
    const identity = { transactionId: this.#fresh.uuid(), committedAtMs: this.#fresh.nowMs() - 1 };
    const next = fenceVersion(head.bytes, { [fenceProperty]: 'true' }, identity);
    const name = nextManifestName(head.path, next.version);
    await this.store.put(`${this.prefix}_transactions/${next.transactionFile}`, next.transaction);
    await this.makeVersion(next, name);
  }

  /** Whether the number after the known version may be taken. A process that was frozen for long has to look again. */
  get isCurrent(): boolean {
    const { wallMs, monotonicMs } = this.#knownAt;
    const elapsedMs = Math.max(this.#fresh.nowMs() - wallMs, performance.now() - monotonicMs);
    return this.#isTrusted && elapsedMs < knownForMs;
  }

  #knows(newest: Newest, at = this.#now()): void {
    this.#newest = newest;
    this.#knownAt = at;
    this.#isTrusted = true;
  }

  #now(): Readonly<Record<'wallMs' | 'monotonicMs', number>> {
    return { wallMs: this.#fresh.nowMs(), monotonicMs: performance.now() };
  }

  /** The newest version that this process knows: of its own commits, or of the last look. */
  get known(): number | undefined {
    return this.#newest?.version;
  }

  /**
   * For a commit: without a request as long as no other program is known to commit, for one that did is noticed by the commit. What
   * live rows need is there then.
   */
  async newestToWrite(): Promise<number> {
    const known = this.#newest;
    if (this.isCurrent && this.#hasDeletions && known !== undefined) return known.version;
    const version = await this.refresh();
    await this.takeDeletions(version);
    this.#hasDeletions = true;
    return version;
  }

  /** As `refresh`, of a branch that may not be there: `TableNotFound` or `TableBranchNotFound`. */
  async open(): Promise<void> {
    if (this.#newest === undefined && (await this.findNewest()) === undefined) throw nothingStored(this.#branch);
    await this.refresh();
  }

  /** The columns of the newest version, for the next dataset of the branch; undefined where they are not known. */
  get columns(): VersionColumns | undefined {
    return this.#columns;
  }

  keepColumns(columns: VersionColumns): void {
    this.#columns = columns;
  }

  /** The newest version: one request if it is known, and a few more if it is not. `TableDamaged` where there is none. */
  async refresh(): Promise<number> {
    const unsettled = this.#unsettled;
    if (unsettled !== undefined) {
      await this.fence(unsettled - 1);
      if (this.#unsettled === unsettled) this.#unsettled = undefined;
      this.#isTrusted = false;
    }
    const before = this.#newest;
    const lookedAt = this.#now();
    const found = await this.findNewest();
    const now = this.#newest;
    // A listing that began before a commit of this process.
    if (now !== before && now !== undefined && now.version >= (found?.version ?? 0)) return now.version;
    if (found === undefined)
      throw new LancegateError('TableDamaged', 'the table is damaged on storage: its versions are missing');
    if (now === undefined) await this.#takeThrough(found, found.version - 1);
    else if (!isSame(now, found)) await this.#follow(now, found);
    const meanwhile = this.#newest;
    if (meanwhile !== now && meanwhile !== undefined && meanwhile.version >= found.version) return meanwhile.version;
    this.#knows(found, lookedAt);
    return found.version;
  }

  async #follow(known: Newest, found: Newest & { readonly name: string }): Promise<void> {
    const isOtherTable = found.version <= known.version || !(await this.#isStill(known));
    if (isOtherTable) this.#clear();
    await this.#takeThrough(found, isOtherTable ? found.version - 1 : known.version);
    if (this.#hasDeletions) await this.takeDeletions(found.version);
  }

  /** Another process can have deleted a branch and made one of its name, which has got further by now. */
  async #isStill({ version }: Newest): Promise<boolean> {
    if (this.#branch === undefined) return true;
    const mirrored = readManifest(this.versionsFolder, version);
    if (mirrored === undefined) return false;
    const stored = await this.store.get(`${this.prefix}_versions/${basename(mirrored.path)}`);
    return stored?.equals(mirrored.bytes) === true;
  }

  /** The name of its manifest says how those of the branch are named. undefined without any version. */
  async findNewest(): Promise<(Newest & { readonly name: string }) | undefined> {
    const prefix = `${this.prefix}_versions/`;
    const firsts = await Array.fromAsync(this.store.list({ prefix, most: namesBefore + 1 }));
    const first = firsts.map((each) => versionIn(prefix, each)).find((each) => each !== undefined);
    if (first !== undefined && isNewestFirst(first.name)) return first;
    const all = await Array.fromAsync(this.store.list({ prefix }));
    return all
      .map((each) => versionIn(prefix, each))
      .filter((each) => each !== undefined)
      .reduce<ReturnType<typeof versionIn>>((a, b) => ((a?.version ?? 0) < b.version ? b : a), undefined);
  }

  /** The manifest of a version, which is in the mirror then. undefined where there is none. */
  async take(version: number): Promise<ReturnType<typeof readManifest>> {
    const mirrored = readManifest(this.versionsFolder, version);
    if (mirrored !== undefined) return mirrored;
    for (const name of manifestNames(version)) {
      const bytes = await this.store.get(`${this.prefix}_versions/${name}`);
      if (bytes === undefined) continue;
      await this.#takeTransaction(bytes);
      return { bytes, path: this.put(join('_versions', name), bytes) };
    }
    return undefined;
  }

  async #takeThrough({ version: newest }: Newest, after: number): Promise<void> {
    const first = Math.max(after + 1, newest - mostVersions);
    const versions = Array.from({ length: newest - first }, (_, index) => first + index);
    await Promise.all(versions.map((version) => this.take(version)));
    await this.take(newest);
  }

  /** Takes it where the writer does not repeat it in the manifest. */
  async #takeTransaction(manifest: Buffer): Promise<void> {
    const stored = transactionIn(manifest);
    if (typeof stored !== 'string') return;
    const path = join('_transactions', stored);
    const bytes = await this.store.get(`${this.prefix}${path}`);
    if (bytes !== undefined) this.put(path, bytes);
  }

  /** Has the deletion vectors of a version in the mirror. Those of other places are left out. */
  async takeDeletions(version: number): Promise<void> {
    const file = readManifest(this.versionsFolder, version);
    if (file === undefined) return;
    const there = new Set(namesIn(join(this.folder, '_deletions')));
    const paths = deletionNames(file.bytes, this.folder).filter((name) => !there.has(name));
    await Promise.all(
      paths.map(async (name) => {
        const bytes = await this.store.get(`${this.prefix}_deletions/${name}`);
        if (bytes !== undefined) this.put(join('_deletions', name), bytes);
      }),
    );
  }

  /** Puts a file into the mirror alone, whole or not at all; returns its path. */
  put(within: string, content: Uint8Array): string {
    const path = join(this.folder, within);
    renameSync(draftOf(path, content), path);
    return path;
  }

  /**
   * Makes a version on the store; false where there is one of this number. What the mirror keeps of it is on the disk before: a full
   * one refuses a version that is not made yet.
   */
  async makeVersion({ version, bytes }: Pick<NewVersion, 'version' | 'bytes'>, name: string): Promise<boolean> {
    const path = join(this.versionsFolder, name);
    const draft = draftOf(path, bytes);
    try {
      if (!(await this.store.putIfAbsent(`${this.prefix}_versions/${name}`, bytes))) return false;
      this.#committed(version, bytes, () => renameSync(draft, path));
      return true;
    } finally {
      rmSync(draft, { force: true });
    }
  }

  /** What cannot be kept is looked for on the store again: the mirror was emptied meanwhile. */
  #committed(version: number, bytes: Buffer, keep: () => void): void {
    try {
      keep();
    } catch {
      this.#isTrusted = false;
      return;
    }
    this.#knows({ version, bytes: bytes.length, tag: undefined });
    this.#commits += 1;
    if (this.#commits % commitsPerSweep === 0) this.#sweep(version, bytes);
  }

  /** Removes the files of versions that no one follows any more. */
  #sweep(newest: number, manifest: Buffer): void {
    const oldest = newest - mostVersions;
    for (const version of listVersions(this.versionsFolder)) {
      if (version < oldest) this.#remove('_versions', manifestNames(version));
    }
    const needed = new Set(deletionNames(manifest, this.folder));
    for (const name of namesIn(join(this.folder, '_deletions'))) {
      const madeAfter = Number(name.split('-')[1]);
      if (!needed.has(name) && madeAfter < oldest) this.#remove('_deletions', [name]);
    }
    for (const name of namesIn(join(this.folder, '_transactions'))) {
      if (Number.parseInt(name, 10) < oldest) this.#remove('_transactions', [name]);
    }
  }

  /** All that is known is of something else. */
  forget(): void {
    this.#newest = undefined;
    this.#unsettled = undefined;
    this.#isTrusted = false;
    this.#clear();
  }

  #clear(): void {
    this.#incarnation += 1;
    this.#hasDeletions = false;
    this.#columns = undefined;
    this.spans.clear();
    for (const folder of ['_versions', '_deletions', '_transactions']) {
      rmSync(join(this.folder, folder), { recursive: true, force: true });
    }
  }

  /** They are about to be removed from the store. */
  forgetVersions(versions: Iterable<number>): void {
    for (const version of versions) this.#remove('_versions', manifestNames(version));
  }

  #remove(folder: string, names: readonly string[]): void {
    for (const name of names) rmSync(join(this.folder, folder, name), { force: true });
  }
}

const isSame = (known: Newest, found: Newest): boolean =>
  known.version === found.version &&
  known.bytes === found.bytes &&
  (known.tag === undefined || known.tag === found.tag);

/** Names of what is left up to the largest version have all digits of that. */
const isNewestFirst = (name: string): boolean =>
  name.length === manifestNames(1)[0].length && versionOfManifestName(name) !== undefined;

function versionIn(
  prefix: string,
  { key, bytes, tag }: StoredObject,
): (Newest & { readonly name: string }) | undefined {
  const version = versionOfManifestKey(prefix, key);
  return version === undefined ? undefined : { version, bytes, tag, name: basename(key) };
}

/** The names of the deletion vectors in the branch's own folder. */
function deletionNames(manifest: Buffer, folder: string): readonly string[] {
  const parsed = parseManifest(manifest);
  return parsed.fragments.flatMap(({ deletions }) => {
    const path = deletions && deletions.baseId === undefined && deletionsPath(parsed, folder, deletions);
    return path ? [basename(path)] : [];
  });
}

/** A file beside `path` that nothing reads. `StorageFull` where the disk is. */
function draftOf(path: string, content: Uint8Array): string {
  const draft = join(dirname(path), `.tmp_${basename(path)}_${randomUUID()}`);
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(draft, content);
    return draft;
  } catch (error) {
    rmSync(draft, { force: true });
    throw translateEngineError('local folder', error, '');
  }
}
