import { lstat, realpath, rm } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { invalidInput } from '../../kernel/errors.ts';
import type { Location } from '../../kernel/ids.ts';

const suffix = '.lance';
/** What LanceDB accepts as a table's name; every location ends in such a name and `.lance`. */
const openableName = /^[A-Za-z0-9_\-.]+$/;
const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i;

/** Where a location lies: the folder a LanceDB connection opens, and the table's name in it. */
export interface Place {
  readonly folderUri: string;
  readonly tableName: string;
}

/**
 * The folder or object-store prefix under which every dataset lies, and the only way from a location to a place on it.
 * Nothing a client sends reaches outside (P9): segments are checked one by one, and on a file system links are resolved.
 */
export class StorageRoot {
  readonly #root: string;
  readonly isLocal: boolean;

  /** An absolute path, or a URI such as `s3://bucket/prefix`. */
  constructor(root: string) {
    this.isLocal = !hasScheme.test(root);
    this.#root = root.replace(/[/\\]+$/, '');
  }

  place(location: Location): Place {
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

  /** Only for a local root. */
  get path(): string {
    return this.#root;
  }

  /** Only for a local root. */
  pathOf(location: Location): string {
    return join(this.#root, location);
  }

  async exists(location: Location): Promise<boolean> {
    return lstat(this.pathOf(location)).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return false;
        throw error;
      },
    );
  }

  async remove(location: Location): Promise<void> {
    await rm(this.pathOf(location), { recursive: true, force: true });
  }

  async locationOf(pathOrUri: string): Promise<Location> {
    const inside = this.isLocal ? this.#localPart(pathOrUri) : this.#remotePart(pathOrUri);
    const segments = inside.replace(/\/+$/, '').split('/');
    if (segments.some((segment) => segment === '' || segment === '.' || segment === '..')) throw outside();
    const name = segments.at(-1) ?? '';
    if (!name.endsWith(suffix) || !openableName.test(name.slice(0, -suffix.length))) {
      throw invalidInput('a location must end in a table folder: letters, digits, "_", "-", "." and then ".lance"');
    }
    const location = segments.join('/') as Location;
    if (this.isLocal) await this.#refuseLinksOutside(location);
    return location;
  }

  #localPart(pathOrUri: string): string {
    const path = pathOrUri.startsWith('file:') ? this.#pathOfFileUri(pathOrUri) : pathOrUri;
    if (hasScheme.test(path) || path.includes('\0')) throw outside();
    const inside = isAbsolute(path) ? relative(resolve(this.#root), resolve(path)) : path;
    return inside.split(sep).join('/');
  }

  #pathOfFileUri(uri: string): string {
    try {
      return fileURLToPath(uri);
    } catch (error) {
      throw invalidInput('location is not a usable file URI', error);
    }
  }

  #remotePart(pathOrUri: string): string {
    if (!hasScheme.test(pathOrUri)) return pathOrUri;
    if (!pathOrUri.startsWith(`${this.#root}/`)) throw outside();
    return pathOrUri.slice(this.#root.length + 1);
  }

  async #refuseLinksOutside(location: Location): Promise<void> {
    if (!(await this.exists(location))) return;
    const [root, target] = await Promise.all([realpath(this.#root), realpath(this.pathOf(location))]);
    if (!target.startsWith(root + sep)) throw outside();
  }
}

const outside = () => invalidInput('location must lie inside the storage root of this service');
