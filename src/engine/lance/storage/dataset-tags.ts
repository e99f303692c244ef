import { basename } from 'node:path';
import { type TagContent, tagFile, tagFolder, tagIn, tagText } from '../../../lance-format/manifest/tag-files.ts';
import type { NewTag, StoredTag, Tags } from '../../port/stored-tags.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { ObjectStore } from '../store/object-store.ts';

/** A tag keeps the id of the request that made it under this name. */
const requestKey = 'lancegate:request-id';

/** Each tag is an object, which is there or not. The engine reads and writes the same ones, but knows no exclusive create. */
export class DatasetTags implements Tags {
  readonly #store: ObjectStore;
  /** All keys of the dataset begin with it; it has no slash at its end. */
  readonly #dataset: string;

  constructor(store: ObjectStore, dataset: string) {
    this.#store = store;
    this.#dataset = dataset;
  }

  list(): Promise<readonly StoredTag[]> {
    return engineCall('open', async () => {
      const listed = await Array.fromAsync(this.#store.list({ prefix: `${tagFolder(this.#dataset)}/` }));
      const found = await Promise.all(
        listed.map(async ({ key }) => tagIn(basename(key), (await this.#store.get(key))?.toString())),
      );
      return found.flatMap((tag) => (tag === undefined ? [] : storedTag(tag)));
    });
  }

  create(tag: NewTag): Promise<boolean> {
    return engineCall('replace', () => this.#store.putIfAbsent(this.#keyOf(tag.name), objectOf(tag)));
  }

  update(tag: NewTag, before: StoredTag): Promise<void> {
    return engineCall('replace', () => this.#store.put(this.#keyOf(tag.name), objectOf(tag, before)));
  }

  remove(name: string): Promise<void> {
    return engineCall('replace', () => this.#store.delete([this.#keyOf(name)]));
  }

  #keyOf(name: string): string {
    return tagFile(this.#dataset, name);
  }
}

function objectOf({ branch, version, manifestBytes, requestId, nowMs }: NewTag, before?: StoredTag): Buffer {
  const now = new Date(nowMs).toISOString();
  const metadata = { ...before?.metadata, [requestKey]: requestId };
  const times = { createdAt: before?.createdAt ?? now, updatedAt: now };
  return Buffer.from(tagText({ branch, version, manifestBytes, ...times, metadata }));
}

function storedTag(content: TagContent & { readonly name: string }): StoredTag {
  const { [requestKey]: requestId, ...metadata } = content.metadata;
  return { ...content, branch: content.branch as StoredTag['branch'], requestId, metadata };
}
