import { LancegateError } from '../../../kernel/errors.ts';
import type { Properties } from '../../../kernel/ids.ts';
import {
  fenceVersion,
  restoredVersion,
  schemaMetadataVersion,
  settingsVersion,
} from '../../../lance-format/manifest/manifest-changes.ts';
import type { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion, VersionIdentity } from '../../../lance-format/manifest/next-manifest.ts';
import { requireBoundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import { fenceProperty, type ManifestChange, type ProposedManifest } from '../../port/change.ts';
import { type ChangeLimits, noLimits } from '../../port/change-limits.ts';
import { type CommitOutcome, isMade } from '../../port/refusal.ts';
import type { VersionsInRemoval } from '../durability/versions-in-removal.ts';
import type { Build, CommitLoop, HeadManifest } from './commit-loop.ts';
import type { Proposals } from './proposals.ts';

interface ManifestCommitParts {
  readonly versionsFolder: string;
  readonly inRemoval: VersionsInRemoval;
  readonly loop: CommitLoop;
  readonly proposals: Proposals;
  /** As `readWholeVersion`, of the branch. */
  readonly readWhole: (version: number) => ReturnType<typeof readManifest>;
}

/** Commits a version that is a new manifest alone: whatever files it names, an older version of the branch names too. */
export class ManifestCommit {
  readonly #parts: ManifestCommitParts;

  constructor(parts: ManifestCommitParts) {
    this.#parts = parts;
  }

  /** As `Dataset.commitManifest`; refused where the table is one for the engine alone. What is restored is not removed meanwhile. */
  async make(change: ManifestChange, limits: ChangeLimits = noLimits, properties?: Properties): Promise<CommitOutcome> {
    const { loop, inRemoval, versionsFolder, proposals } = this.#parts;
    const release = change.kind === 'restore' ? inRemoval.use(versionsFolder, change.version) : undefined;
    const build: Build<NewVersion> = (head, identity) =>
      change.kind === 'proposed' ? proposals.check(change, head, limits) : this.#next(head, change, identity);
    try {
      const columns = change.kind === 'settings' ? 'same columns' : 'other columns';
      const made = await loop.commit(build, { columns, attempts: 1, properties });
      if (!isMade(made)) return made;
      if (change.kind === 'proposed') proposals.remove(change);
      return { version: made.version };
    } finally {
      release?.();
    }
  }

  #next(
    { version, bytes: head }: HeadManifest,
    change: Exclude<ManifestChange, ProposedManifest>,
    identity: VersionIdentity,
  ): NewVersion {
    switch (change.kind) {
      case 'restore':
        return restoredVersion(head, this.#older(change.version, version), identity);
      case 'schema metadata':
        return schemaMetadataVersion(head, change.metadata, identity);
      case 'settings':
        return settingsVersion(head, { ...identity, settings: change.settings });
      case 'fence':
        return fenceVersion(
          head,
          { [fenceProperty]: 'true', ...change.properties },
          { ...identity, transactionId: change.transactionId },
        );
    }
  }

  #older(version: number, newest: number): Buffer {
    const isThere = version <= newest && !this.#parts.inRemoval.has(this.#parts.versionsFolder, version);
    const older = isThere ? this.#parts.readWhole(version) : undefined;
    if (older === undefined) throw noSuchVersion();
    requireBoundedColumns(older.bytes);
    return older.bytes;
  }
}

const noSuchVersion = (): LancegateError => new LancegateError('TableVersionNotFound', 'the table has no such version');
