/**
 * The commit that replaces rows by their addresses: the engine writes the new rows, and this adds the deletion vectors, the
 * transaction and the manifest that an update has. The engine's own merge would first have to find the rows, which takes it
 * several times as long (docs/design/key-index.md).
 *
 * It never guesses: the version follows the one that the addresses are of, or those commits of other programs behind it that leave
 * all rows where they are. A failed commit removes the files that were written, and start-up recovery finds those that a crash leaves.
 * The caller makes the commit durable (`durability.ts`).
 */
import { join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { isOutcomeUnknown, LancegateError } from '../../../kernel/errors.ts';
import type { Properties } from '../../../kernel/ids.ts';
import type { RowAddress } from '../../../keys/address-remap.ts';
import { nextManifestName } from '../../../lance-format/manifest/manifest-files.ts';
import { type DeletionFile, type NextManifest, nextManifest } from '../../../lance-format/manifest/next-manifest.ts';
import { overwriteVersion } from '../../../lance-format/shadow/lifted-version.ts';
import { keepsEveryAddress, takesAwayProperty } from '../../../lance-format/transaction/transaction.ts';
import { type CommitOutcome, isMade, type RefusedCommit } from '../../port/refusal.ts';
import type {
  NewRows,
  PreparedRows,
  Replaced,
  ReplaceOptions,
  Replacing,
  StagedSource,
} from '../../port/row-address.ts';
import { deletionsFile } from '../live-rows/deletion-files.ts';
import type { LiveRowMap, ManifestFile } from '../live-rows/live-rows.ts';
import type { BranchCommits, BuiltVersion, CommitFile, PlacedFiles } from './branch-commits.ts';
import type { Build, CommitLoop, CommitOptions, HeadManifest } from './commit-loop.ts';
import { FileInStaging, type ReadStaged, RowsInStaging, rowFile, SourceInStaging } from './staged-rows.ts';
import type { StagedRows, Staging } from './staging.ts';
import { type Fresh, randomId } from './version-commit.ts';

/** What the deletion vector of a fragment becomes; undefined where no row is left. */
type Deletion = { readonly listed: DeletionFile; readonly file: CommitFile } | undefined;

interface ReplacementParts {
  /** The folder of the manifests of the branch. */
  readonly versionsFolder: string;
  readonly staging: Staging;
  readonly readStaged: ReadStaged;
  readonly commits: BranchCommits;
  readonly loop: CommitLoop;
  readonly fresh: Fresh;
}

export class RowReplacement {
  readonly #parts: ReplacementParts;
  /** The last commit was overtaken: the next one must take less time between its look at the rows and its manifest. */
  #wasOvertaken = false;

  constructor(parts: ReplacementParts) {
    this.#parts = parts;
  }

  /** See `Dataset.prepareRows`. */
  prepare(rows: NewRows): PreparedRows {
    return new FileInStaging(this.#parts.staging, rows);
  }

  /** See `Dataset.stageSource`. */
  stageSource(columns: IpcFile | undefined): StagedSource {
    return new SourceInStaging(this.#parts.staging, columns, this.#parts.readStaged);
  }

  /** See `Dataset.replaceRows`. */
  async replace(
    tracked: LiveRowMap,
    addresses: Iterable<RowAddress>,
    rows: NewRows | undefined,
    { updated, properties: noted, settings, takesAway, turn }: ReplaceOptions = {},
  ): Promise<Replacing> {
    if (tracked.version !== (turn?.follows ?? (await this.#parts.loop.version()))) return 'overtaken';
    const head = tracked.planned && { ...tracked.planned, version: tracked.version };
    const properties = takesAway === true ? { ...noted, [takesAwayProperty]: 'true' } : noted;
    const changes = tracked.change();
    try {
      const deletions = this.#markDeleted(tracked, addresses);
      const build =
        (staged: StagedRows | undefined): Build<NextManifest & ManifestFile> =>
        (on, identity) => {
          // What follows it is planned for one version, and the commit that it follows may not be made.
          if (!tracked.isUnderWay(changes) || changes.planned !== undefined) return 'overtaken';
          if (on.version === tracked.version ? !tracked.isOf(on.bytes) : !this.#keepsAddresses(tracked.version, on))
            return 'overtaken';
          tracked.skipTo(on);
          const gone = new Map([...deletions].map(([id, each]) => [id, each?.listed ?? 'all rows'] as const));
          const replacement = { deletions: gone, staged: staged?.manifest, updated, ...identity };
          const next = nextManifest(on.bytes, replacement);
          return { ...next, path: join(this.#parts.versionsFolder, nextManifestName(on.path, next.version)) };
        };
      const ids = new Map([...deletions].map(([id, each]) => [id, each?.listed.id] as const));
      const planned = (next: NextManifest & ManifestFile): void => {
        if (!tracked.isUnderWay(changes)) return;
        tracked.plan(next, ids, next.fragments);
        turn?.planned(next);
      };
      const vectors = [...deletions.values()].flatMap((deletion) => deletion?.file ?? []);
      const options = { head, properties, settings, turn: turn && { ...turn, planned } };
      const made = await this.#commitRows(rows, vectors, build, options);
      if (!isMade(made)) return made;
      if (changes.planned === undefined) tracked.plan(made, ids, made.fragments);
      tracked.made();
      return made;
    } finally {
      tracked.takeBack(changes); // nothing, once it is committed
    }
  }

  /** See `Dataset.insertRows`. No row that is there matters. */
  async insert(
    rows: PreparedRows | StagedSource,
    mode: 'append' | 'overwrite',
    properties: Properties | undefined,
  ): Promise<Replacing> {
    if (mode === 'overwrite') return rows instanceof SourceInStaging ? this.#overwrite(rows, properties) : notStaged;
    const prepared = rows instanceof SourceInStaging ? await rows.rows() : rows;
    if (!('rows' in prepared)) return notStaged;
    let first: number | undefined;
    const build =
      (staged: StagedRows | undefined): Build<NextManifest> =>
      (head, identity) => {
        first ??= head.version;
        if (head.version !== first && !this.#keepsAddresses(first, head)) return 'overtaken';
        return nextManifest(head.bytes, {
          deletions: new Map(),
          staged: staged?.manifest,
          isAppend: true,
          ...identity,
        });
      };
    return this.#commitRows(prepared, [], build, { properties });
  }

  #overwrite(source: SourceInStaging, properties: Properties | undefined): Promise<Replacing> {
    const { manifest, files } = source.staged();
    const build: Build<BuiltVersion & Replaced> = ({ bytes }, identity) => {
      return { ...overwriteVersion(bytes, manifest, identity), files: files.map(rowFile), fragments: [] };
    };
    return this.#parts.loop.commit(build, { columns: 'other columns', attempts: 1, properties });
  }

  /** The deletion vectors are written while the engine writes the new rows, if there are any: neither needs the other. */
  async #commitRows<Built extends NextManifest>(
    rows: NewRows | RowsInStaging | undefined,
    vectors: readonly CommitFile[],
    build: (staged: StagedRows | undefined) => Build<Built>,
    options?: CommitOptions<Built>,
  ): Promise<CommitOutcome<Built>> {
    const { commits, staging, loop } = this.#parts;
    const inStaging = rows === undefined || rows instanceof RowsInStaging ? rows : new FileInStaging(staging, rows);
    let placed: PlacedFiles | undefined;
    let mayBeMade = false;
    try {
      placed = commits.place(vectors, this.#wasOvertaken ? 'in haste' : undefined);
      placed.done?.catch(() => undefined); // the commit throws it
      const staged = await inStaging?.staged;
      if (staged?.rows !== rows?.rows) return { refused: 'the engine has written another number of rows' };
      const arriving = Promise.all([placed.done, staged && inStaging?.place(commits, staged)]);
      arriving.catch(() => undefined); // of a commit that does not wait for them
      const made = await loop.commit(build(staged), { ...options, arriving });
      mayBeMade = isMade(made);
      this.#wasOvertaken = made === 'overtaken';
      return made;
    } catch (error) {
      mayBeMade = isOutcomeUnknown(error);
      throw error;
    } finally {
      await Promise.allSettled([placed?.done]);
      if (mayBeMade) inStaging?.committed();
      else void placed?.takeBack(); // the next attempt has vectors of other names
      if (inStaging !== rows) inStaging?.discard();
    }
  }

  /** Whether the commits of other programs since then keep them. */
  #keepsAddresses(after: number, { version }: HeadManifest): boolean {
    return keepsEveryAddress(this.#parts.versionsFolder, after, version);
  }

  #markDeleted(tracked: LiveRowMap, addresses: Iterable<RowAddress>): ReadonlyMap<number, Deletion> {
    const fragments = new Set<number>();
    for (const address of addresses) {
      if (!tracked.markDeleted(address)) {
        throw new LancegateError('Internal', 'a row to delete is not where it was found', { internal: { ...address } });
      }
      fragments.add(address.fragment);
    }
    return new Map([...fragments].map((fragment) => [fragment, this.#deletionIn(tracked, fragment)]));
  }

  #deletionIn(tracked: LiveRowMap, fragment: number): Deletion {
    const deleted = tracked.deletionsOf(fragment);
    if (deleted === undefined) return undefined;
    const listed = { readVersion: tracked.version, id: randomId(this.#parts.fresh), deletedRows: deleted.count };
    return { listed, file: { to: deletionsFile(fragment, listed), from: deleted.toBitmap() } };
  }
}

const notStaged: RefusedCommit = { refused: 'the rows were not staged for this table' };
