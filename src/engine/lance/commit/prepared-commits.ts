import { NotReplaceable } from '../../../lance-format/manifest/next-manifest.ts';
import type { PreparedCommit } from '../../port/engine.ts';
import { engineCall } from '../native/translate-errors.ts';
import { CompactedFragments, type CompactedVersion } from './compacted-fragments.ts';
import { IndexBuild, type ShadowCommitDeps } from './index-build.ts';

/** The dataset that asks for them. */
export interface CommittingDataset {
  version(): Promise<number>;
  readonly onCommit: (version: number) => void;
}

/** Compactions and index builds of one branch on a file system. Each is undefined for a table that only the engine may change. */
export class PreparedCommits {
  readonly #deps: ShadowCommitDeps;

  constructor(deps: ShadowCommitDeps) {
    this.#deps = deps;
  }

  compaction(dataset: CommittingDataset, fragments: readonly number[]): Promise<PreparedCommit | undefined> {
    return this.#prepare(dataset, (version) => CompactedFragments.prepare(this.#deps, version, fragments));
  }

  index(dataset: CommittingDataset, column: string): Promise<PreparedCommit | undefined> {
    return this.#prepare(dataset, (version) => IndexBuild.prepare(this.#deps, version, column));
  }

  #prepare(
    dataset: CommittingDataset,
    compute: (version: number) => Promise<CompactedFragments | IndexBuild | undefined>,
  ): Promise<PreparedCommit | undefined> {
    return engineCall('maintain', async () => {
      const result = await compute(await dataset.version()).catch(undefinedIfRefused);
      const commit = () => engineCall('maintain', () => committed(dataset, result));
      return result && { commit, discard: () => result.discard() };
    });
  }
}

async function committed(
  dataset: CommittingDataset,
  result: CompactedFragments | IndexBuild | undefined,
): Promise<number | undefined> {
  const version = await dataset.version();
  const made: CompactedVersion | undefined = await result?.commit(version).catch(undefinedIfRefused);
  if (made !== undefined) dataset.onCommit(made.version);
  return made?.removedFragments;
}

function undefinedIfRefused(error: unknown): undefined {
  if (!(error instanceof NotReplaceable)) throw error;
}
