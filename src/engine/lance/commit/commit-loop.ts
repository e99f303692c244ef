import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { VersionIdentity } from '../../../lance-format/manifest/next-manifest.ts';
import { NotReplaceable } from '../../../lance-format/manifest/replaceable.ts';
import { type CommitOutcome, isMade } from '../../port/refusal.ts';
import type { ColumnsAfter, DatasetHead } from '../head/dataset-head.ts';
import { type BranchCommits, type BuiltVersion, makeVersion } from './branch-commits.ts';
import { type Fresh, newTransaction } from './version-commit.ts';

export interface HeadManifest {
  readonly version: number;
  readonly bytes: Buffer;
  /** The path of the manifest. */
  readonly path: string;
}

/**
 * Builds what follows the head. `overtaken`: what it is made of is not to follow this head. Throws `NotReplaceable` for a table that only
 * the engine may write to.
 */
export type Build<Built extends BuiltVersion> = (
  head: HeadManifest,
  identity: VersionIdentity,
) => Built | 'overtaken' | Promise<Built | 'overtaken'>;

export interface CommitOptions<Built> {
  /** It is the version at which the dataset is, unless it is given. */
  readonly head?: HeadManifest | undefined;
  readonly columns?: ColumnsAfter;
  /** It is built on so many heads at the most. */
  readonly attempts?: number;
  /** See `HeadCommits`. */
  readonly properties?: VersionIdentity['properties'];
  readonly settings?: VersionIdentity['settings'];
  /** Files of the version that are on their way already. */
  readonly arriving?: Promise<unknown>;
  /** See `VersionTurn`. */
  readonly turn?: { planned(next: Built): void; isNext(): Promise<boolean> } | undefined;
}

interface CommitLoopParts {
  readonly head: Pick<DatasetHead, 'isReplaced' | 'requireWritable' | 'readableVersion' | 'committedPastHandle'>;
  readonly versionsFolder: string;
  readonly commits: BranchCommits;
  readonly fresh: Fresh;
}

/** Hardly any other program commits so often in so short a time. */
const mostAttempts = 8;

/**
 * The one way from a head to the version after it, whatever builds that, and the only one that moves the dataset on to it. Where another
 * program was first it is built again on what that program left, if it may follow that.
 */
export class CommitLoop {
  readonly #parts: CommitLoopParts;

  constructor(parts: CommitLoopParts) {
    this.#parts = parts;
  }

  /** The version of the head, whose manifest can be read. */
  version(): Promise<number> {
    return this.#parts.head.readableVersion();
  }

  async commit<Built extends BuiltVersion>(
    build: Build<Built>,
    options: CommitOptions<Built> = {},
  ): Promise<CommitOutcome<Built>> {
    const { head: dataset, commits, fresh } = this.#parts;
    if (dataset.isReplaced) return 'overtaken'; // the caller opens what is there now
    dataset.requireWritable();
    const { attempts = mostAttempts, columns = 'same columns', arriving, turn, properties, settings } = options;
    let head = options.head ?? this.#manifestOf(await this.version());
    for (let attempt = 1; head !== undefined; attempt += 1) {
      const next = await built(build, head, { ...newTransaction(fresh), properties, settings }, attempt === 1);
      if (!isMade(next)) return next;
      const inTurn = turn && { planned: () => turn.planned(next), isNext: () => turn.isNext() };
      if (await makeVersion(commits, next, head.path, arriving, inTurn)) {
        dataset.committedPastHandle(next.version, columns);
        return next;
      }
      const newest: number = attempt < attempts ? ((await commits.newest()) ?? 0) : 0;
      head = newest > head.version ? this.#manifestOf(newest) : undefined;
    }
    return 'overtaken';
  }

  #manifestOf(version: number): HeadManifest | undefined {
    const found = readManifest(this.#parts.versionsFolder, version);
    return found && { version, ...found };
  }
}

async function built<Built extends BuiltVersion>(
  build: Build<Built>,
  head: HeadManifest,
  identity: VersionIdentity,
  isFirst: boolean,
): Promise<CommitOutcome<Built>> {
  try {
    return await build(head, identity);
  } catch (error) {
    if (!(error instanceof NotReplaceable)) throw error;
    // Another program has made the table one that only the engine may change, and so was first.
    return isFirst ? { refused: error.message } : 'overtaken';
  }
}
