/**
 * A request may name a database. It is a namespace of the root, and what the request calls its root: the names that it sends
 * are below it, and so are those that it is shown. What is inside of this service knows full names only, the policy and the
 * audit too.
 */
import type { IncomingMessage } from 'node:http';
import { LRUCache } from 'lru-cache';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { NamespacePath, ObjectName, TableRef } from '../kernel/ids.ts';
import { maxParts, readDatabaseName } from '../wire/identifiers.ts';

/** Every client of `db://NAME` sends it. */
export const databaseHeader = 'x-lancedb-database';
/** Clients of `db://NAME/PREFIX` send it. */
const prefixHeader = 'x-lancedb-database-prefix';

export class Database {
  /** It is the whole root. */
  static readonly all = new Database([]);
  readonly path: NamespacePath;
  readonly #mustBeNamed: boolean;

  /** `mustBeNamed`: the root's own tables are out of reach. */
  constructor(path: NamespacePath, mustBeNamed = false) {
    this.path = path;
    this.#mustBeNamed = mustBeNamed;
  }

  /** `InvalidInput` where the root itself is meant and a database has to be named. */
  requireNamed(): void {
    if (!this.#mustBeNamed) return;
    throw invalidInput(`${databaseHeader}: this service needs it for tables that are in no namespace`);
  }

  /** Returns the full path of what the request calls so. */
  namespace(sent: NamespacePath): NamespacePath {
    if (this.path.length + sent.length > maxParts)
      throw invalidInput(`id: with its database it has more than ${maxParts} parts`);
    return [...this.path, ...sent];
  }

  table({ namespace, name }: TableRef): TableRef {
    if (namespace.length === 0) this.requireNamed();
    const parts = this.namespace([...namespace, name]);
    return { namespace: parts.slice(0, -1), name };
  }

  holds({ namespace }: TableRef): boolean {
    return this.#isAround(namespace);
  }

  #isAround(path: NamespacePath): boolean {
    return this.path.every((name, index) => name === path[index]);
  }

  /** As the request calls it; what the database does not hold keeps its full name. */
  shownNamespace(path: NamespacePath): NamespacePath {
    return this.#isAround(path) ? path.slice(this.path.length) : path;
  }

  shown({ namespace, name }: TableRef): TableRef {
    return { namespace: this.shownNamespace(namespace), name };
  }
}

type DatabaseMode = 'off' | 'auto' | 'required';

/** `isDatabase`: whether the root has a namespace of this name, or had one. Never false again once it was true. */
type IsDatabase = (name: ObjectName) => Promise<boolean>;

/**
 * Every client of `db://x` sends a header, whatever it takes `x` for. So a name that is, and was, no namespace is the root. One that
 * was dropped stays what it was: its tables are gone, and never those of the root.
 */
export class Databases {
  readonly #mode: DatabaseMode;
  readonly #isDatabase: IsDatabase;
  readonly #known = new LRUCache<ObjectName, true>({ max: 1_000 });

  constructor(mode: DatabaseMode, isDatabase: IsDatabase) {
    this.#mode = mode;
    this.#isDatabase = isDatabase;
  }

  /** `InvalidInput`, `Unsupported`. */
  async of({ headers, rawHeaders }: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): Promise<Database> {
    if (this.#mode === 'off') return Database.all;
    if (textOf(headers[prefixHeader]) !== '') {
      throw new LancegateError(
        'Unsupported',
        `${prefixHeader} is not offered: connect to db://NAME without a path, and put the tables into namespaces`,
      );
    }
    const text = textOf(headers[databaseHeader]);
    const isRequired = this.#mode === 'required';
    if (text === '') return isRequired ? new Database([], true) : Database.all;
    if (rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === databaseHeader).length > 1)
      throw invalidInput(`${databaseHeader}: there are several`);
    const name = readDatabaseName(text);
    if (name === undefined) {
      if (isRequired) throw invalidInput(`${databaseHeader}: no namespace can have this name`);
      return Database.all;
    }
    return isRequired || (await this.#isKnown(name)) ? new Database([name]) : Database.all;
  }

  /** A name that is none yet is asked for each time: another replica may make it. */
  async #isKnown(name: ObjectName): Promise<boolean> {
    if (this.#known.has(name)) return true;
    const isKnown = await this.#isDatabase(name);
    if (isKnown) this.#known.set(name, true);
    return isKnown;
  }
}

/** Node reads the bytes of a header as Latin-1, and clients write UTF-8. */
const textOf = (header: string | string[] = ''): string =>
  header === '' ? '' : Buffer.from(String(header), 'latin1').toString('utf8').trim();
