/** What of a dataset other processes do, each told which dataset it is: changes that clients want, builds of indexes, compactions. */
import { type BranchName, type Location, ownLocation } from '../../../kernel/ids.ts';
import { branchFolder, stagingFolder } from '../../../lance-format/manifest/manifest-files.ts';
import type { Builds, ReaderChange, ReaderChanges } from '../../port/reader-work.ts';
import type { PreparationParts } from '../commit/prepared-commits.ts';
import type { TryVersion } from '../commit/proposals.ts';
import type { BranchShadowsParts } from '../shadow/branch-shadows.ts';
import type { ColumnViewsParts } from '../shadow/column-views.ts';
import type { DatasetBuilds, Surroundings } from './surroundings.ts';

export interface ProcessPools {
  /** A reader has none: what the engine computes for clients runs there. */
  readonly readerChanges?: ReaderChanges | undefined;
  /** Without it, this process builds all indexes and compacts. */
  readonly builds?: Builds | undefined;
}

export class OtherProcesses {
  readonly #pools: ProcessPools;

  constructor({ readerChanges, builds }: ProcessPools) {
    this.#pools = { readerChanges, builds };
  }

  ofBranch(location: Location, branch: BranchName | undefined) {
    return { ...this.#readers('root', location, branch), builds: this.#builds(location, branch) };
  }

  ofScratch(location: Location) {
    return this.#readers('scratch', location, undefined);
  }

  /** Tries a proposed version, whose name is one in the staging folder of the branch. */
  trialsOf(location: Location, branch: BranchName | undefined): TryVersion | undefined {
    const { readerChanges } = this.#pools;
    return readerChanges && ((name, trial) => readerChanges.fault({ ...trial, ...shadowOf(location, branch, name) }));
  }

  /** They work on the shadows in the staging folder of a branch, which they know by name. */
  ofShadows(
    location: Location,
    branch: BranchName | undefined,
  ): Pick<BranchShadowsParts, 'changeInReader'> &
    Pick<PreparationParts, 'buildInBuilder' | 'compactInBuilder'> &
    Pick<ColumnViewsParts, 'readInReader'> {
    const { readerChanges, builds } = this.#pools;
    const at = (name: string) => shadowOf(location, branch, name);
    return {
      changeInReader: readerChanges && ((name, change) => readerChanges.change({ ...change, ...at(name) })),
      readInReader: readerChanges && ((name, rows) => readerChanges.read({ ...rows, ...at(name), version: 1 })),
      buildInBuilder: builds && ((name, spec, scope) => builds.build({ ...scope, ...at(name), version: 1, spec })),
      compactInBuilder: builds && ((name, spec, signal) => builds.compact({ ...at(name), version: 1, spec, signal })),
    };
  }

  #readers(
    store: 'root' | 'scratch',
    location: Location,
    branch: BranchName | undefined,
  ): Pick<Surroundings, 'changeInReader' | 'readInReader'> {
    const { readerChanges } = this.#pools;
    if (readerChanges === undefined) return {};
    return {
      changeInReader: (change) => readerChanges.change({ ...change, store, location, branch }),
      readInReader: (rows) => readerChanges.read({ ...rows, store, location, branch }),
    };
  }

  #builds(location: Location, branch: BranchName | undefined): DatasetBuilds | undefined {
    const { builds } = this.#pools;
    const at = { store: 'root', location, branch } as const;
    return (
      builds && {
        build: (build) => builds.build({ ...build, ...at }),
        compact: (compaction) => builds.compact({ ...compaction, ...at }),
      }
    );
  }
}

function shadowOf(
  location: Location,
  branch: BranchName | undefined,
  name: string,
): Pick<ReaderChange, 'store' | 'location' | 'branch'> {
  const within = stagingFolder(branchFolder(location, branch));
  return { store: 'shadow', location: ownLocation(`${within}/${name}.lance`), branch: undefined };
}
