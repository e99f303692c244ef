/** Tables and namespaces as wholes: their names, their locations, and that no folder is left of one that is gone. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { idsFrom, makeTable, rowsOf, without } from './crash-rows.ts';
import type { Step, Subject, Turn } from './crash-sequence.ts';
import type { CrashService } from './crash-service.ts';

const firstRows = 100;
const tag = 'first';

interface TablesOf {
  /** By name. */
  readonly tables: Readonly<Record<string, { readonly rows: number | 'declared'; readonly folder: string }>>;
  /** The folders without a table: deregistered ones. */
  readonly left: readonly string[];
}

const namespaceOf = (table: string): string => `${table}_space`;

const listTables = async (service: CrashService, namespace: string): Promise<readonly string[]> =>
  (await service.get({ path: `/v1/namespace/${namespace}/table/list`, method: 'GET' })).tables as readonly string[];

async function described(service: CrashService, id: string) {
  const { location, is_only_declared: isDeclared } = await service.get({ path: `/v1/table/${id}/describe` });
  const rows = isDeclared ? 'declared' : (await service.query(id, { columns: ['id'] })).numRows;
  return { rows, folder: madeFor(basename(location as string)) } as const;
}

const foldersIn = (path: string): readonly string[] => (existsSync(path) ? readdirSync(path) : []);

/** The table that a folder was made for: a location is given out once, so a second try gets one with an id. */
const madeFor = (folder: string): string => folder.replace(/(?:-[0-9a-f]{12})?\.lance$/, '');

/** `tablesFolder`: the storage root. */
export const tables = (tablesFolder: string): Subject<TablesOf> => ({
  name: 'tables',
  takesUpserts: true,
  async start(service, table) {
    await makeTable(service, table, firstRows);
    await service.get({ path: `/v1/table/${table}/tags/create`, body: { tag, version: 1 } });
    await service.get({ path: `/v1/namespace/${namespaceOf(table)}/create` });
    return { tables: {}, left: [] };
  },
  next: (table, turn) => nextOfTables(tablesFolder, table, turn),
  async observe(service, table) {
    const space = namespaceOf(table);
    const found: Record<string, TablesOf['tables'][string]> = {};
    for (const name of await listTables(service, space)) found[name] = await described(service, `${space}$${name}`);
    const taken = new Set(Object.values(found).map(({ folder }) => folder));
    return {
      tables: found,
      left: foldersIn(join(tablesFolder, space))
        .map(madeFor)
        .filter((folder) => !taken.has(folder)),
    };
  },
});

function nextOfTables(tablesFolder: string, table: string, turn: Turn<TablesOf>): Step<TablesOf> {
  const { n, state, random } = turn;
  const space = namespaceOf(table);
  const at = (name: string, verb: string) => `/v1/table/${space}$${name}/${verb}`;
  const fresh = `t${n}`;
  const put = (rows: number | 'declared', folder = fresh) => ({
    ...state.tables,
    [fresh]: { rows, folder },
  });
  const [left] = state.left;
  if (left !== undefined && n % 3 === 0) {
    const folder = foldersIn(join(tablesFolder, space)).find((each) => madeFor(each) === left);
    const asked = { path: at(fresh, 'register'), body: { location: `${space}/${folder}` } };
    const after = { tables: put(firstRows, left), left: state.left.slice(1) };
    return { name: 'register', asked, after, repetition: 'none', whenDone: [409] };
  }
  const whole = Object.keys(state.tables).filter((name) => state.tables[name]!.rows === firstRows);
  if (whole.length < 3) {
    const clone = { source_location: `${table}.lance`, source_tag: tag };
    const body = n % 2 === 0 ? clone : rowsOf(idsFrom(0, firstRows), 0);
    const asked = { path: at(fresh, n % 2 === 0 ? 'clone' : 'create'), body };
    const after = { ...state, tables: put(firstRows) };
    return n % 2 === 0
      ? { name: 'clone', asked, after, repetition: 'none', whenDone: [409] }
      : { name: 'create', asked, after, repetition: 'Idempotency-Key' };
  }
  const name = random.pick(Object.keys(state.tables));
  const others = without(state.tables, name);
  const isDeclared = state.tables[name]!.rows === 'declared';
  switch (n % 4) {
    case 0: {
      const asked = { path: at(name, 'rename'), body: { new_table_name: fresh } };
      const after = { ...state, tables: { ...others, [fresh]: state.tables[name]! } };
      return { name: 'rename', asked, after, repetition: 'none', whenDone: [404] };
    }
    case 1: {
      const asked = { path: at(fresh, 'declare') };
      return {
        name: 'declare',
        asked,
        after: { ...state, tables: put('declared') },
        repetition: 'none',
        whenDone: [409],
      };
    }
    case 2:
      if (!isDeclared && state.left.length === 0) {
        const after = { tables: others, left: [state.tables[name]!.folder] };
        return {
          name: 'deregister',
          asked: { path: at(name, 'deregister') },
          after,
          repetition: 'none',
          whenDone: [404],
        };
      }
  }
  const after = { ...state, tables: others };
  return { name: 'drop', asked: { path: at(name, 'drop') }, after, repetition: 'none', whenDone: [404] };
}

/** The tables of each namespace below one. */
type Spaces = Readonly<Record<string, readonly string[]>>;

export const namespaces = (tablesFolder: string): Subject<Spaces> => ({
  name: 'namespaces',
  takesUpserts: true,
  async start(service, table) {
    await makeTable(service, table, firstRows);
    await service.get({ path: `/v1/namespace/${namespaceOf(table)}/create` });
    return {};
  },
  next(table, { n, state, random }) {
    const id = (name: string) => `${namespaceOf(table)}$${name}`;
    const spaces = Object.keys(state);
    const empty = spaces.find((name) => state[name]!.length === 0);
    if (spaces.length < 2) {
      const asked = { path: `/v1/namespace/${id(`s${n}`)}/create`, body: { properties: { of: `${n}` } } };
      const after = { ...state, [`s${n}`]: [] };
      return { name: 'namespace/create', asked, after, repetition: 'none', whenDone: [409] };
    }
    if (empty !== undefined && n % 4 !== 0) {
      const asked = { path: `/v1/table/${id(empty)}$t${n}/create`, body: rowsOf(idsFrom(0, 10), 0) };
      const after = { ...state, [empty]: [`t${n}`] };
      return { name: 'create', asked, after, repetition: 'Idempotency-Key' };
    }
    const name = random.pick(spaces);
    const body = { behavior: 'cascade' };
    const asked = { path: `/v1/namespace/${id(name)}/drop`, body };
    const between = [{ ...state, [name]: [] }];
    return { name: 'namespace/drop', asked, after: without(state, name), between, repetition: 'none', whenDone: [404] };
  },
  async observe(service, table) {
    const space = namespaceOf(table);
    const { namespaces: found } = await service.get({ path: `/v1/namespace/${space}/list`, method: 'GET' });
    const spaces: Record<string, readonly string[]> = {};
    for (const name of found as readonly string[]) {
      spaces[name] = await listTables(service, `${space}$${name}`);
    }
    return spaces;
  },
  async verify(service, table) {
    const space = namespaceOf(table);
    for (const name of foldersIn(join(tablesFolder, space))) {
      const folders = foldersIn(join(tablesFolder, space, name));
      const listed = folders.length === 0 ? [] : await listTables(service, `${space}$${name}`);
      const gone = folders.filter((folder) => !listed.includes(madeFor(folder)));
      if (gone.length > 0) throw new Error(`${space}/${name} has the folders ${gone.join()} of no table`);
    }
  },
});
