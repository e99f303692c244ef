import { basename } from 'node:path';
import { tagFile, tagFolder, tagIn, tagText } from '../../../lance-format/manifest/tag-files.ts';
import type { NewTag, StoredTag, Tags } from '../../port/stored-tags.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { ObjectStore } from '../store/object-store.ts';
import { contentOf, storedTag } from './tag-store.ts';

/** On an object store: each tag is an object, which is there or not. */
export class StoreTags implements Tags {
  readonly #store: ObjectStore;
  /** Of the keys of the dataset, without a slash at its end. */
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
    return engineCall('replace', () => this.#store.putIfAbsent(this.#keyOf(tag.name), asObject(tag)));
  }

  update(tag: NewTag, before: StoredTag): Promise<void> {
    return engineCall('replace', () => this.#store.put(this.#keyOf(tag.name), asObject(tag, before)));
  }

  remove(name: string): Promise<void> {
    return engineCall('sync', () => this.#store.delete([this.#keyOf(name)]));
  }

  #keyOf(name: string): string {
    return tagFile(this.#dataset, name);
  }
}

const asObject = (tag: NewTag, before?: StoredTag): Buffer => Buffer.from(tagText(contentOf(tag, before)));
