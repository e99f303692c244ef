import type { BranchName, Properties } from '../../kernel/ids.ts';

/** A name for one version of a branch. Pruning leaves the version there. */
export interface StoredTag {
  readonly name: string;
  /** undefined is main. */
  readonly branch: BranchName | undefined;
  readonly version: number;
  readonly manifestBytes: number;
  /** RFC 3339; undefined where it is not known. */
  readonly createdAt: string | undefined;
  readonly updatedAt: string | undefined;
  /** The request that wrote the tag has it; undefined if another program did. */
  readonly requestId: string | undefined;
  /** Other programs wrote it. */
  readonly metadata: Properties;
}

export interface NewTag extends Pick<StoredTag, 'name' | 'branch' | 'version' | 'manifestBytes'> {
  readonly requestId: string;
  readonly nowMs: number;
}

/**
 * The tags of a dataset, the same by whichever of its branches. What changes them is durable when it resolves (P3), and whole or
 * not there. The caller holds the lock of the table's tags, and has seen that the version is there.
 */
export interface Tags {
  list(): Promise<readonly StoredTag[]>;
  /** False if the name is taken. */
  create(tag: NewTag): Promise<boolean>;
  update(tag: NewTag, before: StoredTag): Promise<void>;
  remove(name: string): Promise<void>;
}

export interface Tagged {
  readonly tags: Tags;
}
