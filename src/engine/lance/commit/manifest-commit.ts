import { join } from 'node:path';
import { LancegateError } from '../../../kernel/errors.ts';
import { fenceVersion } from '../../../lance-format/manifest/fence-version.ts';
import { manifestNames, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { ifNotReplaceable, type NewVersion } from '../../../lance-format/manifest/next-manifest.ts';
import { manifestFileOf } from '../../../lance-format/manifest/parse-manifest.ts';
import { restoredVersion } from '../../../lance-format/manifest/restored-version.ts';
import { schemaMetadataVersion } from '../../../lance-format/manifest/schema-metadata-version.ts';
import { requireBoundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import { fenceProperty, type ManifestChange, type ProposedManifest } from '../../port/change.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import type { BranchCommits, HeadManifest } from './branch-commits.ts';
import type { Proposals } from './proposals.ts';
import { type Fresh, newTransaction } from './version-commit.ts';

interface ManifestCommitParts {
  /** The folder of the dataset, or of the branch in it. */
  readonly folder: string;
  readonly inRemoval: VersionsInRemoval;
  readonly commits: BranchCommits;
  readonly proposals: Proposals;
  /** As `readWholeVersion`, of the branch. */
  readonly readWhole: (version: number) => ReturnType<typeof readManifest>;
  readonly fresh: Fresh;
}

/** Commits a version that is a new manifest alone: whatever files it names, an older version of the branch names too. */
export class ManifestCommit {
  readonly #parts: ManifestCommitParts;
  readonly #versionsFolder: string;

  constructor(parts: ManifestCommitParts) {
    this.#parts = parts;
    this.#versionsFolder = join(parts.folder, '_versions');
  }

  /**
   * As `Dataset.commitManifest`, of the branch at this version. `refused`: the table is one for the engine alone. What is
   * restored is not removed meanwhile.
   */
  async commit(
    version: number,
    change: ManifestChange,
    limits: ChangeLimits = { timeoutMs: undefined, principal: undefined },
  ): Promise<{ readonly version: number } | 'overtaken' | 'refused'> {
    const head = readManifest(this.#versionsFolder, version);
    if (head === undefined) return 'overtaken';
    if (change.kind === 'proposed') return this.#publish(change, { version, ...head }, limits);
    const restored = change.kind === 'restore' ? change.version : version;
    const release = this.#parts.inRemoval.use(this.#versionsFolder, restored);
    try {
      const next = this.#next(head.bytes, version, change);
      return (await this.#parts.commits.make(next, head.path)) ? { version: next.version } : 'overtaken';
    } catch (error) {
      return ifNotReplaceable(error, 'refused');
    } finally {
      release();
    }
  }

  /** The first version of a dataset that has none. */
  makeFirst(change: ProposedManifest, limits: ChangeLimits): Promise<{ readonly version: number } | 'overtaken'> {
    const name = manifestNames(0)[change.naming === 'V1' ? 1 : 0];
    return this.#publish(change, { version: 0, bytes: noManifest, path: join(this.#versionsFolder, name) }, limits);
  }

  async #publish(
    change: ProposedManifest,
    head: HeadManifest,
    limits: ChangeLimits,
  ): Promise<{ readonly version: number } | 'overtaken'> {
    const { commits, proposals } = this.#parts;
    const next = await proposals.check(change, head, limits);
    if (!(await commits.make(next, head.path))) return 'overtaken';
    proposals.remove(change);
    return { version: next.version };
  }

  #next(head: Buffer, version: number, change: Exclude<ManifestChange, ProposedManifest>): NewVersion {
    const identity = newTransaction(this.#parts.fresh);
    switch (change.kind) {
      case 'restore':
        return restoredVersion(head, this.#older(change.version, version), identity);
      case 'schema metadata':
        return schemaMetadataVersion(head, change.metadata, identity);
      case 'fence':
        return fenceVersion(
          head,
          { [fenceProperty]: 'true', ...change.properties },
          { ...identity, transactionId: change.transactionId },
        );
    }
  }

  #older(version: number, newest: number): Buffer {
    const isThere = version <= newest && !this.#parts.inRemoval.has(this.#versionsFolder, version);
    const older = isThere ? this.#parts.readWhole(version) : undefined;
    if (older === undefined) throw noSuchVersion();
    requireBoundedColumns(older.bytes);
    return older.bytes;
  }
}

/** Of no version: it has nothing, and is nowhere. */
const noManifest = manifestFileOf(
  { message: Buffer.of(), indexes: undefined, transaction: undefined },
  Buffer.from('\0\0\0\0LANC'),
);

const noSuchVersion = (): LancegateError => new LancegateError('TableVersionNotFound', 'the table has no such version');
