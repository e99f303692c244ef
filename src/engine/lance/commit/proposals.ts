import { basename, join, posix } from 'node:path';
import { invalidInput, LancegateError } from '../../../kernel/errors.ts';
import { manifestNames, storedFiles } from '../../../lance-format/manifest/manifest-files.ts';
import { type FileReference, manifestFileOf, parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import {
  type ProposalContext,
  type ProposedVersion,
  proposedVersion,
  UnfitManifest,
} from '../../../lance-format/manifest/proposed-version.ts';
import { trialManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import type { ProposedManifest } from '../../port/change.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type { VersionTrial } from '../../port/reader-work.ts';
import type { ObjectStore } from '../store/object-store.ts';
import { type BranchCommits, makeVersion } from './branch-commits.ts';
import type { HeadManifest } from './commit-loop.ts';
import type { Staging } from './staging.ts';

interface ProposalParts {
  readonly branch: string | undefined;
  /** As `Locations.objectPathOf`, of the folder of the branch. */
  readonly objectPath: string;
  readonly store: ObjectStore;
  /** All keys of the branch begin with it; it ends with a slash. */
  readonly prefix: string;
  readonly older: ProposalContext['older'];
  readonly staging: Pick<Staging, 'look'>;
  readonly versionsFolder: string;
  readonly commits: BranchCommits;
  /** Without it no version is tried. */
  readonly tryVersion: TryVersion | undefined;
}

/** Reads a version in another process, by the name of its dataset in the staging folder: as `ReaderChanges.fault`. */
export type TryVersion = (
  name: string,
  trial: Pick<VersionTrial, 'version' | 'toTry' | keyof ChangeLimits>,
) => Promise<string | undefined>;

/** A manifest has some 100 bytes for each fragment and column; one that had more already may keep its size. */
const largestManifestBytes = 16 * 1_024 ** 2;
/** What the programs of Lance call a manifest before it is that of a version. */
const proposedName = /^\d{1,20}\.manifest-[\dA-Za-z-]{1,64}$/;
const filesAtOnce = 16;

/** The versions that other programs propose for one branch. */
export class Proposals {
  readonly #parts: ProposalParts;

  constructor(parts: ProposalParts) {
    this.#parts = parts;
  }

  /** The version that is proposed, if it may follow this head and can be read. `InvalidInput`, `VersionTaken`. */
  async check(proposed: ProposedManifest, head: HeadManifest, limits: ChangeLimits): Promise<ProposedVersion> {
    const { branch, older } = this.#parts;
    const path = this.#pathOf(proposed);
    requireNext(proposed, head);
    const bytes = await this.#read(path, proposed, head);
    const version = fit(() => proposedVersion(bytes, { head: head.bytes, version: proposed.version, branch, older }));
    await this.#requireFiles(bytes, version.newFiles);
    await this.#requireReadable(version, limits);
    return version;
  }

  async #requireReadable({ version, bytes, changed }: ProposedVersion, limits: ChangeLimits): Promise<void> {
    const { staging, commits, tryVersion } = this.#parts;
    if (tryVersion === undefined) return;
    const ids = new Set(changed.fragments.map(({ id }) => id));
    const trial = { version, bytes: trialManifest(bytes, commits.uri, ids) };
    const fault = await staging.look(trial, (name) => tryVersion(name, { version, toTry: changed, ...limits }));
    if (fault !== undefined) throw unfit(fault);
  }

  /** As the first version of a dataset that has none. False where another program made it. */
  async makeFirst(proposed: ProposedManifest, limits: ChangeLimits): Promise<boolean> {
    const { versionsFolder, commits } = this.#parts;
    const path = join(versionsFolder, manifestNames(0)[proposed.naming === 'V1' ? 1 : 0]);
    const first = await this.check(proposed, { version: 0, bytes: noManifest, path }, limits);
    if (!(await makeVersion(commits, first, path))) return false;
    this.remove(proposed);
    return true;
  }

  /** Once it is a version, under another name. */
  remove(proposed: ProposedManifest): void {
    void this.#parts.store.delete([this.#keyOf(this.#pathOf(proposed))]).catch(() => undefined);
  }

  /** Only the name is the client's: the rest of its path must be that of this branch. */
  #pathOf({ manifestPath }: ProposedManifest): string {
    const name = basename(manifestPath);
    const expected = `${this.#parts.objectPath}/_versions/${name}`;
    if (manifestPath.replace(/^\//, '') !== expected || !proposedName.test(name)) {
      throw invalidInput('manifest_path: it must be that of a staged manifest of this branch');
    }
    return posix.join('_versions', name);
  }

  async #read(path: string, { manifestBytes }: ProposedManifest, head: HeadManifest): Promise<Buffer> {
    const size = await this.#sizeOf(path);
    if (size !== undefined && size > Math.max(largestManifestBytes, 2 * head.bytes.length)) {
      throw invalidInput('manifest_path: the manifest is too large for this table');
    }
    // Its writer may replace it by a larger one meanwhile. Stores refuse an empty range.
    const range = { start: 0, end: size ?? 0 };
    const bytes = size === 0 ? Buffer.of() : await this.#parts.store.get(this.#keyOf(path), range);
    if (size === undefined || bytes === undefined) throw invalidInput('manifest_path: there is no such file');
    if (bytes.length === (manifestBytes ?? bytes.length)) return bytes;
    throw invalidInput(`manifest_size: the manifest has ${bytes.length} bytes`);
  }

  /** undefined where there is no such file. */
  async #sizeOf(path: string): Promise<number | undefined> {
    const key = this.#keyOf(path);
    const [first] = await Array.fromAsync(this.#parts.store.list({ prefix: key, most: 1 }));
    return first?.key === key ? first.bytes : undefined;
  }

  #keyOf(path: string): string {
    return `${this.#parts.prefix}${path}`;
  }

  async #requireFiles(manifest: Buffer, added: readonly FileReference[]): Promise<void> {
    const needed = added.filter(({ kind }) => kind !== 'transaction');
    const stored = storedFiles({ ...parseManifest(manifest), files: needed }, '');
    for (let start = 0; start < stored.length; start += filesAtOnce) {
      await Promise.all(stored.slice(start, start + filesAtOnce).map((file) => this.#requireFile(file)));
    }
  }

  async #requireFile({ path, sizeBytes }: { path: string; sizeBytes: number | undefined }): Promise<void> {
    const size = await this.#sizeOf(path);
    if (size !== undefined && size === (sizeBytes ?? size)) return;
    throw invalidInput('manifest_path: the manifest names a file that is missing, or of another size');
  }
}

/** The manifest of no version has nothing, and is nowhere. */
const noManifest = manifestFileOf(
  { message: Buffer.of(), indexes: undefined, transaction: undefined },
  Buffer.from('\0\0\0\0LANC'),
);

function requireNext({ version, naming }: ProposedManifest, head: HeadManifest): void {
  if (version <= head.version) {
    throw new LancegateError('VersionTaken', `the branch has a version ${version} already; nothing was written`);
  }
  if (version > head.version + 1) throw invalidInput(`version: the next version of the branch is ${head.version + 1}`);
  const names = manifestNames(head.version);
  if (naming !== undefined && basename(head.path) !== names[naming === 'V2' ? 0 : 1]) {
    throw invalidInput('naming_scheme: the manifests of the branch are named in the other way');
  }
}

function fit<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnfitManifest) throw unfit(error.message);
    throw error;
  }
}

const unfit = (why: string): LancegateError => invalidInput(`manifest_path: the manifest is not fit: ${why}`);
