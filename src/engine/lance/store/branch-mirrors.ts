import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BranchName, Location } from '../../../kernel/ids.ts';
import { BranchMirror, type MirroredBranch } from './branch-mirror.ts';
import { requireAnswer, requireOneWinner, type StorePlace } from './open-store.ts';

/** The mirrors lie there, in folders named by the location of the dataset. */
export const mirrorsFolder = (scratchFolder: string): string => join(scratchFolder, 'mirrors');

/** The mirrors of the branches that this process has opened: one for each branch, however many datasets it has. */
export class BranchMirrors {
  readonly #place: StorePlace;
  readonly #rootUri: string;
  readonly #folder: string;
  readonly #fresh: MirroredBranch['fresh'];
  readonly #mirrors = new Map<Location, Map<string, BranchMirror>>();

  constructor(place: StorePlace, rootUri: string, folder: string, fresh: MirroredBranch['fresh']) {
    this.#place = place;
    this.#rootUri = rootUri;
    this.#folder = folder;
    this.#fresh = fresh;
  }

  of(location: Location, branch: BranchName | undefined): BranchMirror {
    const ofDataset = this.#mirrors.get(location) ?? new Map<string, BranchMirror>();
    this.#mirrors.set(location, ofDataset);
    const mirror = ofDataset.get(branch ?? '') ?? this.#open(location, branch);
    ofDataset.set(branch ?? '', mirror);
    return mirror;
  }

  /** The branch is gone: another one of its name has nothing of it. */
  forgetBranch(location: Location, branch: BranchName): void {
    const mirror = this.#mirrors.get(location)?.get(branch);
    if (mirror === undefined) return;
    mirror.forget();
    this.#mirrors.get(location)?.delete(branch);
  }

  /** The dataset is gone, with its branches. */
  async forget(location: Location): Promise<void> {
    this.#mirrors.delete(location);
    await rm(join(this.#folder, location), { recursive: true, force: true });
  }

  /** The key of what the URI names; undefined outside the storage root. */
  keyOf(uri: string): string | undefined {
    if (!uri.startsWith(`${this.#rootUri}/`)) return undefined;
    return `${this.#place.prefix}${uri.slice(this.#rootUri.length + 1).replace(/\/+$/, '')}`;
  }

  requireOneWinner(): Promise<void> {
    return requireOneWinner(this.#place, `lancegate-probe-${randomUUID()}`, this.#rootUri);
  }

  requireAnswer(): Promise<void> {
    return requireAnswer(this.#place, this.#rootUri);
  }

  close(): void {
    this.#place.store.close();
  }

  #open(location: Location, branch: BranchName | undefined): BranchMirror {
    const { store, prefix } = this.#place;
    return new BranchMirror({
      store,
      datasetPrefix: `${prefix}${location}/`,
      datasetUri: `${this.#rootUri}/${location}`,
      datasetPath: join(this.#folder, location),
      branch,
      fresh: this.#fresh,
    });
  }
}
