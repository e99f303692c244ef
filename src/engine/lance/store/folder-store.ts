import { randomUUID } from 'node:crypto';
import { constants, lstatSync, type Stats } from 'node:fs';
import { copyFile, link, mkdir, open, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { codeOf } from '../../../kernel/errors.ts';
import type { ByteRange, Content, ListRequest, ObjectStore, StoredObject } from './object-store.ts';

interface FolderStoreParts {
  /** An absolute path; keys are relative to it. */
  readonly root: string;
  /** These make durable what a file holds, that it is there under its name, and that names went from a folder. */
  readonly syncContent: (path: string) => Promise<void>;
  readonly syncName: (path: string) => Promise<void>;
  readonly syncRemovals: (folder: string) => Promise<void>;
}

/**
 * A folder as an object store. An object is made by `link`, which fails if there is one, and replaced by `rename`: a reader sees all of
 * it or what was there before. A crash leaves at most a draft, which no program takes for anything else. A copy is durable with the
 * version that names it. What is no plain file, such as a link to another place, is not there.
 */
export class FolderStore implements ObjectStore {
  /** What is asked is done before the call returns. */
  readonly refusedAfterMs: number = 0;
  readonly #parts: FolderStoreParts;
  readonly #draftMark = `${draftMark}${randomUUID()}-`;

  constructor(parts: FolderStoreParts) {
    this.#parts = parts;
  }

  async putIfAbsent(key: string, content: Uint8Array): Promise<boolean> {
    try {
      await this.#write(key, content, link);
      return true;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
      return false;
    }
  }

  put(key: string, content: Content): Promise<void> {
    return this.#write(key, content, rename);
  }

  async #write(key: string, content: Content, publish: (draft: string, path: string) => Promise<void>): Promise<void> {
    const path = join(this.#parts.root, key);
    const draft = join(dirname(path), `${this.#draftMark}${randomUUID()}`);
    await mkdir(dirname(path), { recursive: true });
    await this.#removeDrafts(dirname(path));
    try {
      await (content instanceof Uint8Array ? writeFile(draft, content) : copyFile(content.path, draft));
      await this.#parts.syncContent(draft);
      await publish(draft, path);
    } finally {
      await rm(draft, { force: true });
    }
    await this.#parts.syncName(path);
  }

  /** Those that a process before has left: only one writes to a folder. */
  async #removeDrafts(folder: string): Promise<void> {
    for (const name of await readdir(folder)) {
      const isLeft = name.startsWith(draftMark) && !name.startsWith(this.#draftMark);
      if (isLeft) await rm(join(folder, name), { force: true });
    }
  }

  async get(key: string, range?: ByteRange): Promise<Buffer | undefined> {
    const file = await open(join(this.#parts.root, key), plainFile).catch(undefinedIfNoFile);
    if (file === undefined) return undefined;
    try {
      const found = await file.stat();
      if (!found.isFile()) return undefined;
      if (range === undefined) return await file.readFile();
      const bytes = Buffer.alloc(Math.max(0, Math.min(range.end, found.size) - range.start));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, range.start);
      return bytes.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  /** Lance never changes a file, so a hard link is as good as a copy, and takes no space. */
  async copy(from: string, to: string): Promise<void> {
    const [source, target] = [join(this.#parts.root, from), join(this.#parts.root, to)];
    await mkdir(dirname(target), { recursive: true });
    try {
      await link(source, target);
    } catch (error) {
      if (!needsCopy.has(codeOf(error) ?? '')) throw error;
      await copyFile(source, target, constants.COPYFILE_EXCL);
    }
  }

  /** One object by its key is found without a listing. */
  async *list({ prefix, most = Number.POSITIVE_INFINITY, known }: ListRequest): AsyncIterable<StoredObject> {
    const exact = most === 1 ? this.#lookAt(prefix) : undefined;
    if (exact !== undefined) {
      yield exact;
      return;
    }
    let left = most;
    let looks = 0;
    for await (const key of this.#keysBelow(prefix.slice(0, prefix.lastIndexOf('/') + 1), prefix)) {
      // A look takes microseconds; to wait for each would take ten times as long.
      if (looks++ % looksAtOnce === looksAtOnce - 1) await nextTurn();
      const found = known?.get(key) ?? this.#lookAt(key);
      if (found === undefined) continue;
      if (left-- <= 0) return;
      yield found;
    }
  }

  /** They come in the order of their bytes, in which a folder's name ends with a slash. */
  async *#keysBelow(folder: string, prefix: string): AsyncIterable<string> {
    const entries = await readdir(join(this.#parts.root, folder), { withFileTypes: true }).catch(undefinedIfNoFile);
    const keys = (entries ?? [])
      .filter(({ name }) => !name.startsWith(draftMark))
      .map((entry) => `${folder}${entry.name}${entry.isDirectory() ? '/' : ''}`)
      .filter((key) => key.startsWith(prefix) || prefix.startsWith(key))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    for (const key of keys) {
      if (key.endsWith('/')) yield* this.#keysBelow(key, prefix);
      else yield key;
    }
  }

  #lookAt(key: string): StoredObject | undefined {
    const found = statOf(join(this.#parts.root, key));
    if (found?.isFile() !== true) return undefined;
    return { key, bytes: found.size, modifiedAtMs: found.mtimeMs, tag: `${found.ino}-${found.mtimeMs}-${found.size}` };
  }

  async delete(keys: readonly string[]): Promise<void> {
    const paths = keys.map((key) => join(this.#parts.root, key));
    for (const path of paths) await rm(path, { force: true });
    for (const folder of new Set(paths.map((path) => dirname(path)))) {
      // An index is a folder, which goes with its last file.
      const isGone = basename(dirname(folder)) === '_indices' && (await rmdir(folder).then(() => true, falseIfUsed));
      await this.#parts.syncRemovals(isGone ? dirname(folder) : folder);
    }
  }

  close(): void {}
}

const looksAtOnce = 64;
const draftMark = '.lancegate-draft-';
/** Does not wait for the other end of a pipe. */
const plainFile = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** A file that has as many links as it can have, or whose file system has none, fails with these. */
const needsCopy: ReadonlySet<string> = new Set(['EMLINK', 'EXDEV', 'EPERM', 'ENOTSUP']);
const noFile: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO']);

function statOf(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch (error) {
    return undefinedIfNoFile(error);
  }
}

function undefinedIfNoFile(error: unknown): undefined {
  if (!noFile.has(codeOf(error) ?? '')) throw error;
}

function falseIfUsed(error: NodeJS.ErrnoException): false {
  if (error.code === 'ENOTEMPTY' || noFile.has(error.code ?? '')) return false;
  throw error;
}
