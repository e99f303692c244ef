/** The LanceDB SDK for Node with the service and with an embedded database, and the tables that its cases work on. */
import {
  Branches,
  type Connection,
  Connection as ConnectionClass,
  connect,
  Index,
  MergeInsertBuilder,
  Query,
  type Table,
  Table as TableClass,
  Tags,
  TakeQuery,
  VectorQuery,
} from '@lancedb/lancedb';
import {
  Table as ArrowTable,
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int32,
  List,
  makeData,
  Schema,
  Struct,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';

const dimension = 8;
const words = 'river stone lamp garden winter paper engine copper silent orchard thunder velvet meadow lantern'.split(
  ' ',
);
const word = (index: number): string => words[index % words.length] ?? '';

export const longestWaitSeconds = 60;

/** The same numbers each time, and no two vectors at one distance. */
export const vectorOf = (row: number): number[] =>
  Array.from({ length: dimension }, (_, index) => Math.fround(Math.sin(row * 12.9898 + index * 78.233) * 3));

const bookFields = {
  id: new Field('id', new Int32(), true),
  name: new Field('name', new Utf8(), true),
  score: new Field('score', new Float64(), true),
  tags: new Field('tags', new List(new Field('item', new Utf8(), true)), true),
  text: new Field('text', new Utf8(), true),
  vector: new Field('vector', new FixedSizeList(dimension, new Field('item', new Float32(), true)), true),
};

export function books(count: number): ArrowTable {
  const rows = Array.from({ length: count }, (_, id) => id);
  const columns = {
    id: rows,
    name: rows.map((id) => `book ${String(id).padStart(3, '0')}`),
    score: rows.map((id) => (id % 11 === 5 ? null : ((id * 37) % 101) / 4)),
    tags: rows.map((id) => [word(id % 5), word((id % 3) + 5)]),
    text: rows.map((id) => [1, 2, 3, 4, 5, 6].map((step) => word(id * step + step)).join(' ')),
    vector: rows.map(vectorOf),
  };
  return tableOf(bookFields, columns, count);
}

const peopleFields = { id: bookFields.id, name: bookFields.name, score: bookFields.score };

export const peopleSchema = new Schema(Object.values(peopleFields));

interface People {
  readonly id: readonly number[];
  readonly name: readonly string[];
  readonly score: readonly (number | null)[];
}

export const peopleOf = (people: People): ArrowTable => tableOf(peopleFields, { ...people }, people.id.length);

export const people = peopleOf({ id: [1, 2, 3], name: ['ann', 'bob', 'cid'], score: [1.5, 2.5, null] });
export const more = peopleOf({ id: [3, 4], name: ['cyd', 'dan'], score: [3.5, 4.5] });

function tableOf(
  fields: Readonly<Record<string, Field>>,
  columns: Readonly<Record<string, readonly unknown[]>>,
  length: number,
): ArrowTable {
  const schema = new Schema(Object.values(fields));
  const children = schema.fields.map(({ name, type }) => {
    const [data] = vectorFromArray(columns[name] as never, type).data;
    return data ?? makeData({ type } as never);
  });
  return new ArrowTable(schema, makeData({ type: new Struct(schema.fields), length, children }) as never);
}

/** The classes whose methods are noted, by the name that the report gives them. */
export const kinds = {
  Connection: ConnectionClass,
  Table: TableClass,
  Tags,
  Branches,
  MergeInsert: MergeInsertBuilder,
  VectorQuery,
  TakeQuery,
  Query,
} as const;

export type Kind = keyof typeof kinds;

export const kindOf = (value: unknown): Kind | undefined =>
  (Object.keys(kinds) as Kind[]).find((kind) => value instanceof kinds[kind]);

/** Methods that only subclasses of the SDK call. */
export const internal = new Set(['doCall', 'doVectorCall', 'getInner', 'nativeExecute', 'getEmbeddingFunctions']);

export interface Database {
  readonly isService: boolean;
  readonly connect: () => Promise<Connection>;
  /** Where it stores a table. */
  readonly locate: (name: string) => Promise<string>;
  readonly connection: Connection;
  readonly shared: Map<string, Promise<Table>>;
}

export async function overHttp(url: string, apiKey: string): Promise<Database> {
  const connecting = () => connect('db://lancegate', { apiKey, hostOverride: url });
  const locate = async (name: string): Promise<string> => {
    const answer = await fetch(`${url}/v1/table/${name}/describe`, {
      method: 'POST',
      headers: { 'x-api-key': apiKey },
    });
    return ((await answer.json()) as { readonly location: string }).location;
  };
  return { isService: true, connect: connecting, locate, connection: await connecting(), shared: new Map() };
}

export async function embedded(folder: string): Promise<Database> {
  const connecting = () => connect(folder);
  const locate = async (name: string): Promise<string> => `${folder}/${name}.lance`;
  return { isService: false, connect: connecting, locate, connection: await connecting(), shared: new Map() };
}

type SharedName = 'plain' | 'searchable' | 'indexed';

/** What one case works with: a connection that notes its calls, and tables of its own. */
export class LanceDbSide {
  readonly seen = new Set<string>();
  readonly isService: boolean;
  readonly db: Connection;
  readonly prefix: string;
  readonly #database: Database;
  #made = 0;

  constructor(database: Database, number: number) {
    this.#database = database;
    this.isService = database.isService;
    this.prefix = `node_${number}`;
    this.db = this.watched(database.connection);
  }

  name(): string {
    this.#made += 1;
    return `${this.prefix}_${this.#made}`;
  }

  people(): Promise<Table> {
    return this.db.createTable(this.name(), people);
  }

  books(count: number): Promise<Table> {
    return this.db.createTable(this.name(), books(count));
  }

  async newConnection(): Promise<Connection> {
    return this.watched(await this.#database.connect());
  }

  /** The SDK for Node does not say it. */
  locate(table: Table): Promise<string> {
    return this.#database.locate(table.name);
  }

  /** A table that many cases only read. */
  async shared(name: SharedName): Promise<Table> {
    const made = this.#database.shared.get(name) ?? makeShared(this.#database.connection, name);
    this.#database.shared.set(name, made);
    return this.watched(await made);
  }

  /** All rows, in the order of their ids. */
  async rows(table: Table): Promise<readonly Record<string, unknown>[]> {
    return byId(await table.query().limit(10_000).toArray());
  }

  /** The tables of this case; all cases share a database. */
  async names(): Promise<readonly string[]> {
    const names = await this.db.tableNames({ limit: 10_000 });
    return names.filter((name) => name.startsWith(`${this.prefix}_`));
  }

  /** Notes what is called on an object of the SDK, and on the objects that it returns. */
  watched<Target extends object>(target: Target): Target {
    const kind = kindOf(target);
    if (kind === undefined) return target;
    const note = (name: string): void => void this.seen.add(`${kind}.${name}`);
    const watch = (value: unknown): unknown => {
      if (value instanceof Promise) return value.then(watch);
      return typeof value === 'object' && value !== null ? this.watched(value) : value;
    };
    return new Proxy(target, {
      get(_target, name) {
        if (typeof name === 'string') note(name);
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...given: readonly unknown[]) => watch(Reflect.apply(value, target, given));
      },
    });
  }
}

async function makeShared(connection: Connection, name: SharedName): Promise<Table> {
  const made = await connection.createTable(`node_shared_${name}`, books(name === 'indexed' ? 1024 : 240));
  const waitTimeoutSeconds = longestWaitSeconds;
  if (name === 'searchable') {
    await made.createIndex('text', { config: Index.fts({ withPosition: true }), waitTimeoutSeconds });
  }
  if (name === 'indexed') {
    await made.createIndex('vector', { config: Index.ivfFlat({ numPartitions: 4 }), waitTimeoutSeconds });
  }
  return made;
}

export const byId = (rows: readonly unknown[]): readonly Record<string, unknown>[] =>
  rows.map((row) => ({ ...(row as Record<string, unknown>) })).sort((a, b) => Number(a.id) - Number(b.id));
