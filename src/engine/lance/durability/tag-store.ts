/**
 * The tags of a dataset, as `Tags` of the port. On a file system this service writes the files itself: the engine syncs nothing,
 * and knows no exclusive create. A new tag gets its name by a `link`, a changed one by a `rename`, so a reader sees either all of
 * it or what was there before, and a crash leaves at most a draft that no program takes for a tag.
 */
import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { namesIn } from '../../../lance-format/manifest/manifest-files.ts';
import { readTags, type TagContent, tagFile, tagFolder, tagText } from '../../../lance-format/manifest/tag-files.ts';
import type { NewTag, StoredTag, Tags } from '../../port/stored-tags.ts';
import type { NativeTable } from '../native/native.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { Durability } from './durability.ts';

const draftMark = '.lancegate-draft-';
/** Where a tag keeps the id of the request that made it. */
const requestKey = 'lancegate:request-id';

export class LocalTags implements Tags {
  readonly #datasetPath: string;
  readonly #durability: Durability;

  constructor(datasetPath: string, durability: Durability) {
    this.#datasetPath = datasetPath;
    this.#durability = durability;
  }

  list(): Promise<readonly StoredTag[]> {
    return engineCall('open', async () => readTags(this.#datasetPath).map(storedTag));
  }

  create(tag: NewTag): Promise<boolean> {
    return this.#write(tag, undefined, (draft, path) => linkSync(draft, path));
  }

  async update(tag: NewTag, before: StoredTag): Promise<void> {
    await this.#write(tag, before, (draft, path) => renameSync(draft, path));
  }

  async remove(name: string): Promise<void> {
    await engineCall('replace', async () => rmSync(tagFile(this.#datasetPath, name), { force: true }));
    await engineCall('sync', () => this.#durability.namesChanged(tagFolder(this.#datasetPath)));
  }

  /** False if the name is taken. */
  #write(tag: NewTag, before: StoredTag | undefined, publish: (draft: string, path: string) => void): Promise<boolean> {
    return engineCall('replace', async () => {
      const folder = tagFolder(this.#datasetPath);
      const draft = join(folder, `${draftMark}${randomUUID()}`);
      const path = tagFile(this.#datasetPath, tag.name);
      mkdirSync(folder, { recursive: true });
      this.#removeDrafts(folder);
      try {
        writeFileSync(draft, tagText(contentOf(tag, before)));
        await this.#durability.fileWritten(draft);
        publish(draft, path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
        throw error;
      } finally {
        rmSync(draft, { force: true });
      }
      await this.#durability.fileWritten(path);
      return true;
    });
  }

  /** Removes drafts that a crash has left. No other draft is there: the caller holds the lock of the table's tags. */
  #removeDrafts(folder: string): void {
    for (const name of namesIn(folder)) if (name.startsWith(draftMark)) rmSync(join(folder, name), { force: true });
  }
}

export function contentOf(
  { branch, version, manifestBytes, requestId, nowMs }: NewTag,
  before?: StoredTag,
): TagContent {
  const now = new Date(nowMs).toISOString();
  const metadata = { ...before?.metadata, [requestKey]: requestId };
  return { branch, version, manifestBytes, createdAt: before?.createdAt ?? now, updatedAt: now, metadata };
}

export function storedTag(content: ReturnType<typeof readTags>[number]): StoredTag {
  const { [requestKey]: requestId, ...metadata } = content.metadata;
  return { ...content, branch: content.branch as StoredTag['branch'], requestId, metadata };
}

/** On object stores that only the engine can reach, where its writes are durable and atomic. It keeps no id of a request. */
export class EngineTags implements Tags {
  readonly #table: () => Promise<NativeTable>;

  constructor(table: () => Promise<NativeTable>) {
    this.#table = table;
  }

  /** The engine's listing names no branches. */
  list(): Promise<readonly StoredTag[]> {
    return engineCall('open', async () => {
      const table = await this.#table();
      const handle = await table.checkoutCurrent();
      try {
        const found: StoredTag[] = [];
        for (const [name, { version, manifestSize }] of Object.entries(await (await table.tags()).list())) {
          await handle.checkoutTag(name);
          found.push({
            name,
            branch: (handle.currentBranch() ?? undefined) as StoredTag['branch'],
            version,
            manifestBytes: manifestSize,
            createdAt: undefined,
            updatedAt: undefined,
            requestId: undefined,
            metadata: {},
          });
        }
        return found;
      } finally {
        handle.close();
      }
    });
  }

  async create(tag: NewTag): Promise<boolean> {
    if ((await this.list()).some(({ name }) => name === tag.name)) return false;
    await this.#onBranch(tag.branch, async (tags) => tags.create(tag.name, tag.version));
    return true;
  }

  async update(tag: NewTag): Promise<void> {
    await this.#onBranch(tag.branch, async (tags) => tags.update(tag.name, tag.version));
  }

  remove(name: string): Promise<void> {
    return this.#onBranch(undefined, async (tags) => tags.delete(name));
  }

  /** The engine tags a version of the branch that the handle is on. */
  #onBranch(
    branch: string | undefined,
    work: (tags: Awaited<ReturnType<NativeTable['tags']>>) => Promise<void>,
  ): Promise<void> {
    return engineCall('branch', async () => {
      const table = await this.#table();
      const handle = await (branch === undefined ? table.checkoutCurrent() : (await table.branches()).checkout(branch));
      try {
        await work(await handle.tags());
      } finally {
        handle.close();
      }
    });
  }
}
