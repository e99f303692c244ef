/** What a table holds, and how it changes: rows, whole contents, versions, tags and branches. */
import assert from 'node:assert/strict';
import { part } from '#test/http/multipart-body.ts';
import { idsFrom, makeTable, type RowCounts, rowCounts, rowsOf, transactOf, without } from './crash-rows.ts';
import type { Step, Subject, Turn } from './crash-sequence.ts';
import type { CrashService } from './crash-service.ts';

const firstRows = 100;
/** Of several chunks. */
const largeInsert = 3_000;
const smallInsert = 5;

const start = async (service: CrashService, table: string): Promise<RowCounts> => {
  await makeTable(service, table, firstRows);
  return {};
};

function insert(
  table: string,
  n: number,
  rows: number,
): Pick<Step<never>, 'asked' | 'repetition'> & { readonly made: RowCounts } {
  const body = rowsOf(idsFrom(-10_000 * n, rows), -n);
  return {
    asked: { path: `/v1/table/${table}/insert`, body },
    repetition: 'Idempotency-Key',
    made: { [`-${n}:0`]: rows },
  };
}

const updated = (state: RowCounts, entry: string): RowCounts => {
  const [request, n] = entry.split(':');
  return { ...without(state, entry), [`${request}:${Number(n) + 1}`]: state[entry]! };
};

export const rows: Subject<RowCounts> = {
  name: 'rows',
  takesUpserts: true,
  start,
  next(table, { n, state, random }) {
    const entries = Object.keys(state);
    if (entries.length === 0 || n % 5 < 2) {
      const { made, ...sent } = insert(table, n, n % 5 === 0 ? smallInsert : largeInsert);
      return { name: 'insert', ...sent, after: { ...state, ...made } };
    }
    const entry = random.pick(entries);
    const predicate = `request = ${entry.split(':')[0]}`;
    const updates = [['n', 'n + 1']];
    switch (n % 5) {
      case 2:
        return {
          name: 'update',
          asked: { path: `/v1/table/${table}/update`, body: { predicate, updates } },
          after: updated(state, entry),
          repetition: 'x-request-id',
        };
      case 3: {
        const parts = [
          part('changed', { operation: 'update', predicate, updates }),
          part('added', { operation: 'insert', source: 'new' }),
          part('new', rowsOf(idsFrom(-10_000 * n, smallInsert), -n)),
        ];
        return {
          name: 'transact',
          asked: transactOf(table, parts),
          after: { ...updated(state, entry), [`-${n}:0`]: smallInsert },
          repetition: 'Idempotency-Key',
        };
      }
      default:
        return {
          name: 'delete',
          asked: { path: `/v1/table/${table}/delete`, body: { predicate } },
          after: without(state, entry),
          repetition: 'x-request-id',
        };
    }
  },
  observe: rowCounts,
};

export const overwrite: Subject<RowCounts> = {
  name: 'overwrite',
  takesUpserts: false,
  start,
  next(table, { n, state }) {
    const { made, asked, repetition } = insert(table, n, n % 2 === 0 ? smallInsert : largeInsert);
    if (n % 2 === 0) return { name: 'insert', asked, repetition, after: { ...state, ...made } };
    return { name: 'overwrite', asked: { ...asked, path: `${asked.path}?mode=overwrite` }, repetition, after: made };
  },
  observe: rowCounts,
  async verify(service, table) {
    const first = await service.query(table, { columns: ['id'], filter: 'request = 0' });
    assert.ok([0, firstRows].includes(first.numRows), `${first.numRows} of the first rows`);
  },
};

const versionOf = (answer: Readonly<Record<string, unknown>>): number | undefined =>
  typeof answer.version === 'number' ? answer.version : undefined;

export const restore: Subject<RowCounts> = {
  name: 'restore',
  takesUpserts: false,
  start,
  next(table, { n, state, history, random }) {
    const known = history.filter(({ answer }) => versionOf(answer) !== undefined).slice(-6);
    if (n % 2 === 1 || known.length === 0) {
      const { made, ...sent } = insert(table, n, smallInsert);
      return { name: 'insert', ...sent, after: { ...state, ...made } };
    }
    const to = random.pick(known);
    return {
      name: 'restore',
      asked: { path: `/v1/table/${table}/restore`, body: { version: versionOf(to.answer) } },
      after: to.state,
      repetition: n % 4 === 0 ? 'Idempotency-Key' : 'x-request-id',
    };
  },
  observe: rowCounts,
};

interface Tagged {
  readonly rows: RowCounts;
  readonly tags: Readonly<Record<string, number>>;
}

const newestVersion = <State>({ history }: Turn<State>): number | undefined =>
  history.map(({ answer }) => versionOf(answer)).findLast((version) => version !== undefined);

export const tags: Subject<Tagged> = {
  name: 'tags',
  takesUpserts: true,
  async start(service, table) {
    return { rows: await start(service, table), tags: {} };
  },
  next(table, turn) {
    const { n, state, random } = turn;
    const version = newestVersion(turn);
    if (n % 4 === 1 || version === undefined) {
      const { made, ...sent } = insert(table, n, smallInsert);
      return { name: 'insert', ...sent, after: { ...state, rows: { ...state.rows, ...made } } };
    }
    const names = Object.keys(state.tags);
    const at = (verb: string) => `/v1/table/${table}/tags/${verb}`;
    const put = (tag: string) => ({ ...state, tags: { ...state.tags, [tag]: version } });
    if (n % 4 === 2 || names.length === 0) {
      const tag = `t${n}`;
      const asked = { path: at('create'), body: { tag, version } };
      return { name: 'tags/create', asked, after: put(tag), repetition: 'none' };
    }
    const tag = random.pick(names);
    if (n % 4 === 3 || names.length < 3) {
      const asked = { path: at('update'), body: { tag, version } };
      return { name: 'tags/update', asked, after: put(tag), repetition: 'none' };
    }
    const after = { ...state, tags: without(state.tags, tag) };
    return {
      name: 'tags/delete',
      asked: { path: at('delete'), body: { tag } },
      after,
      repetition: 'none',
      whenDone: [404],
    };
  },
  async observe(service, table) {
    const listed = await service.get({ path: `/v1/table/${table}/tags/list` });
    const found = Object.entries(listed.tags as Record<string, { version: number }>);
    return {
      rows: await rowCounts(service, table),
      tags: Object.fromEntries(found.map(([name, { version }]) => [name, version])),
    };
  },
  async verify(service, table) {
    const listed = await service.get({ path: `/v1/table/${table}/tags/list` });
    for (const { version } of Object.values(listed.tags as Record<string, { version: number }>)) {
      await rowCounts(service, table, { version });
    }
  },
};

/** Asks for the removal of all that is old, again and again. */
export const versions: Subject<RowCounts> = {
  name: 'versions',
  takesUpserts: true,
  start,
  next(table, turn) {
    const { n, state } = turn;
    const version = newestVersion(turn);
    if (n % 2 === 1 || version === undefined) {
      const { made, ...sent } = insert(table, n, smallInsert);
      return { name: 'insert', ...sent, after: { ...state, ...made } };
    }
    const ranges = [{ start_version: 0, end_version: version }];
    const asked = { path: `/v1/table/${table}/version/delete`, body: { ranges } };
    return { name: 'version/delete', asked, after: state, repetition: 'none' };
  },
  observe: rowCounts,
};

/** Own rows of each branch. */
type BranchRows = Readonly<Record<string, RowCounts>>;

export const branches: Subject<BranchRows> = {
  name: 'branches',
  takesUpserts: true,
  async start(service, table) {
    await makeTable(service, table, firstRows);
    return {};
  },
  next(table, { n, state, random }) {
    const names = Object.keys(state);
    const at = (verb: string) => `/v1/table/${table}/branches/${verb}`;
    if (names.length === 0 || (n % 3 === 1 && names.length < 4)) {
      const name = `b${n}`;
      const asked = { path: at('create'), body: { name } };
      return { name: 'branches/create', asked, after: { ...state, [name]: {} }, repetition: 'none', whenDone: [409] };
    }
    const name = random.pick(names);
    if (n % 3 === 2) {
      const { made, asked, repetition } = insert(table, n, smallInsert);
      const after = { ...state, [name]: { ...state[name], ...made } };
      return { name: 'insert', asked: { ...asked, path: `${asked.path}?branch=${name}` }, repetition, after };
    }
    const asked = { path: at('delete'), body: { name } };
    return { name: 'branches/delete', asked, after: without(state, name), repetition: 'none', whenDone: [404] };
  },
  async observe(service, table) {
    const listed = await service.get({ path: `/v1/table/${table}/branches/list` });
    const found: Record<string, RowCounts> = {};
    for (const branch of Object.keys(listed.branches as object)) {
      found[branch] = await rowCounts(service, table, { branch });
    }
    return found;
  },
};
