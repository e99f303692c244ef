import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { invalidInput } from '../../../kernel/errors.ts';
import { type Location, ownLocation } from '../../../kernel/ids.ts';
import type { Spelling } from '../../../kernel/spelling.ts';
import type { ResolvedLocation } from '../../port/engine.ts';
import { trashFolder } from '../storage/folder-storage.ts';

const suffix = '.lance';
/** What LanceDB accepts as a table's name; every location ends in such a name and `.lance`. */
const openableName = /^[A-Za-z0-9_\-.]+$/;
const scheme = /^[a-z][a-z0-9+.-]*:\/\//i;

/** Whether it is a URI: a root on an object store. */
export const hasScheme = (pathOrUri: string): boolean => scheme.test(pathOrUri);

/** A location lies in the folder that a LanceDB connection opens, under the name of the table. */
interface FolderOfTable {
  readonly folderUri: string;
  readonly tableName: string;
}

/**
 * The folder or object-store prefix under which every dataset lies, and the only way from a location to a path.
 * Nothing a client sends reaches outside (P9) or inside a dataset: segments are checked one by one, and on a file system again
 * after links are resolved.
 */
export class StorageRoot {
  readonly #root: string;
  readonly isLocal: boolean;

  /** An absolute path, or a URI such as `s3://bucket/prefix`. */
  constructor(root: string) {
    this.isLocal = !hasScheme(root);
    this.#root = root.replace(/[/\\]+$/, '');
  }

  folderOf(location: Location): FolderOfTable {
    const cut = location.lastIndexOf('/');
    return {
      folderUri: cut < 0 ? this.#root : `${this.#root}/${location.slice(0, cut)}`,
      tableName: location.slice(cut + 1, -suffix.length),
    };
  }

  uriOf(location: Location): string {
    const whole = `${this.#root}/${location}`;
    return this.isLocal ? pathToFileURL(whole).href : whole;
  }

  objectPathOf(location: Location, path: string): string {
    const root = this.#root.replace(scheme, '');
    const inStore = this.isLocal ? root.replace(/^\//, '') : root.split('/').slice(1).join('/');
    return [inStore, location, path].filter((part) => part !== '').join('/');
  }

  /** Only a local root has it. */
  get path(): string {
    return this.#root;
  }

  /** Only a local root has it. */
  pathOf(location: Location): string {
    return join(this.#root, location);
  }

  /** `parameter` names it in errors. */
  locationOf(pathOrUri: string, parameter = 'location'): Location {
    const inside = this.isLocal ? this.#localPart(pathOrUri, parameter) : this.#remotePart(pathOrUri, parameter);
    const segments = inside.replace(/\/+$/, '').split('/');
    const fault = faultOf(segments);
    if (fault !== undefined) throw invalidInput(`${parameter}: ${fault}`);
    const location = ownLocation(segments.join('/'));
    const bytes = Buffer.byteLength(this.objectPathOf(location, ''));
    if (!this.isLocal && bytes > mostPrefixBytes) {
      throw invalidInput(
        `${parameter}: all names together take ${bytes} bytes on the object store, which is more than ${mostPrefixBytes}`,
      );
    }
    return location;
  }

  async resolve(location: Location): Promise<ResolvedLocation | undefined> {
    if (!this.isLocal) return { location, spelling: 'exact' };
    const [root, target] = await Promise.all([realPath(this.#root), realPath(this.pathOf(location))]);
    if (root === undefined || target?.startsWith(root + sep) !== true) return undefined;
    const segments = relative(root, target).split(sep);
    if (faultOf(segments) !== undefined) return undefined;
    return { location: ownLocation(segments.join('/')), spelling: await spellingBelow(root, segments) };
  }

  #localPart(pathOrUri: string, parameter: string): string {
    const path = pathOrUri.startsWith('file:') ? this.#pathOfFileUri(pathOrUri, parameter) : pathOrUri;
    if (hasScheme(path) || path.includes('\0')) throw outside(parameter);
    const inside = isAbsolute(path) ? relative(resolve(this.#root), resolve(path)) : path;
    return inside.split(sep).join('/');
  }

  #pathOfFileUri(uri: string, parameter: string): string {
    try {
      return fileURLToPath(uri);
    } catch (error) {
      throw invalidInput(`${parameter} is not a usable file URI`, error);
    }
  }

  #remotePart(pathOrUri: string, parameter: string): string {
    if (!hasScheme(pathOrUri)) return pathOrUri;
    if (!pathOrUri.startsWith(`${this.#root}/`)) throw outside(parameter);
    return pathOrUri.slice(this.#root.length + 1);
  }
}

/** The keys of object stores have 1,024 bytes at most, and the files of a dataset have names of up to a hundred. */
const mostPrefixBytes = 900;
/** The namespaces that an identifier can have, and the table. */
const maxSegments = 33;
const maxSegmentBytes = 255;
/** Control characters, and characters with a meaning in URIs: such a name could be read as another one. */
const ambiguous = /[\p{Cc}%?#\\]/u;

/** A text without any fact that the caller did not send. */
function faultOf(segments: readonly string[]): string | undefined {
  const name = segments.at(-1) ?? '';
  if (segments.some((segment) => segment === '' || segment === '.' || segment === '..')) return outsideText;
  if (segments.length > maxSegments) return `it has more than ${maxSegments} parts`;
  if (segments.some((segment) => Buffer.byteLength(segment) > maxSegmentBytes)) {
    return `a part of it is longer than ${maxSegmentBytes} bytes`;
  }
  if (segments.some((segment) => ambiguous.test(segment))) {
    return 'it must not hold control characters, "%", "?", "#" or a backslash';
  }
  if (!name.endsWith(suffix) || !openableName.test(name.slice(0, -suffix.length))) {
    return 'it must end in a table folder: letters, digits, "_", "-", "." and then ".lance"';
  }
  if (segments[0] === trashFolder) return 'it must not lie in the folder of dropped tables';
  const isInDataset = segments.slice(0, -1).some((segment) => segment.toLowerCase().endsWith(suffix));
  return isInDataset ? 'it must not lie inside the folder of a table' : undefined;
}

/** Returns undefined if nothing is there. */
async function realPath(path: string): Promise<string | undefined> {
  return realpath(path).catch((error: NodeJS.ErrnoException) => {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG'].includes(error.code ?? '')) return undefined;
    throw error;
  });
}

/** Tries other spellings on the file system itself, since each folder may have its own rule. */
async function spellingBelow(root: string, segments: readonly string[]): Promise<Spelling> {
  for (const [index, segment] of segments.entries()) {
    const folder = join(root, ...segments.slice(0, index));
    for (const other of otherSpellings(segment)) {
      if (await isSameFile(join(folder, segment), join(folder, other))) return 'loose';
    }
  }
  return 'exact';
}

const otherSpellings = (name: string): readonly string[] =>
  [swapCase(name), name.normalize('NFC'), name.normalize('NFD')].filter((other) => other !== name);

const swapCase = (name: string): string =>
  [...name].map((letter) => (letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase())).join('');

async function isSameFile(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map((path) => stat(path).catch(() => undefined)));
  return a !== undefined && b !== undefined && a.ino === b.ino && a.dev === b.dev;
}

const outsideText = 'it must lie inside the storage root of this service';
const outside = (parameter: string) => invalidInput(`${parameter}: ${outsideText}`);
