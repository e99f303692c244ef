/** Indexes of every family: one that is listed finds what a scan finds. */
import assert from 'node:assert/strict';
import { labelsOf, makeTable, textOf, vectorOf } from './crash-rows.ts';
import type { Subject } from './crash-sequence.ts';
import type { CrashService, Json } from './crash-service.ts';

/** Enough for PQ. */
const firstRows = 400;
const partitions = 4;
const nearest = 10;

interface Family {
  readonly name: string;
  readonly column: string;
  readonly options: Json;
  /** Queries that the index answers, with the ids that they must find of these. */
  readonly asks: readonly Question[];
}

interface Question {
  readonly query: Json;
  readonly finds: (ids: readonly number[]) => readonly number[];
}

const all = { k: 1_000_000 };
const byFilter = (filter: string, isFound: (id: number) => boolean): Question => ({
  query: { ...all, filter },
  finds: (ids) => ids.filter(isFound),
});

const target = vectorOf(17.5);
const distanceTo = (id: number): number => vectorOf(id).reduce((sum, value, at) => sum + (value - target[at]!) ** 2, 0);
const byVector: Question = {
  query: { k: nearest, vector: target, nprobes: partitions, refine_factor: 10_000, ef: 1_000 },
  finds: (ids) => ids.toSorted((a, b) => distanceTo(a) - distanceTo(b)).slice(0, nearest),
};

const vectors = (name: string, options: Json): Family => ({
  name,
  column: 'vector',
  options: { distance_type: 'l2', num_partitions: partitions, ...options },
  asks: [byVector],
});

const families: readonly Family[] = [
  {
    name: 'btree',
    column: 'id',
    options: { index_type: 'BTREE' },
    asks: [
      byFilter('id >= 100 AND id < 1000017', (id) => id >= 100 && id < 1_000_017),
      byFilter('id = 7', (id) => id === 7),
    ],
  },
  { name: 'bitmap', column: 'n', options: { index_type: 'BITMAP' }, asks: [byFilter('n = 0', () => true)] },
  {
    name: 'label-list',
    column: 'labels',
    options: { index_type: 'LABEL_LIST' },
    asks: [byFilter("array_has_any(labels, ['l3'])", (id) => labelsOf(id).includes('l3'))],
  },
  {
    name: 'fts',
    column: 'text',
    options: { index_type: 'FTS', with_position: true, remove_stop_words: false },
    asks: [
      {
        query: { ...all, full_text_query: { query: 'w3' } },
        finds: (ids) => ids.filter((id) => textOf(id).includes('w3')),
      },
    ],
  },
  vectors('ivf-flat', { index_type: 'IVF_FLAT' }),
  vectors('ivf-pq', { index_type: 'IVF_PQ', num_sub_vectors: 4 }),
  vectors('ivf-hnsw-sq', { index_type: 'IVF_HNSW_SQ' }),
];

async function idsOf(service: CrashService, table: string, query: Json): Promise<readonly number[]> {
  const found = await service.query(table, { columns: ['id'], ...query });
  return [...found].map((row) => Number(row.id)).sort((a, b) => a - b);
}

/** Its own ones: maintenance builds one on the key. */
const names = async (service: CrashService, table: string): Promise<readonly string[]> => {
  const { indexes } = await service.get({ path: `/v1/table/${table}/index/list` });
  return (indexes as readonly { index_name: string }[])
    .map(({ index_name: name }) => name)
    .filter((name) => name.startsWith('x'));
};

/** Its indexes, by their names. */
const indexes = ({ name, column, options, asks }: Family): Subject<readonly string[]> => ({
  name: `index-${name}`,
  takesUpserts: true,
  async start(service, table) {
    await makeTable(service, table, firstRows, true);
    return [];
  },
  next(table, { n, state }) {
    const repetition = n % 2 === 0 ? 'Idempotency-Key' : 'x-request-id';
    const [first] = state;
    if (first === undefined || n % 3 === 0) {
      const index = first ?? `x${n}`;
      const path = `/v1/table/${table}/${column === 'vector' ? 'create_index' : 'create_scalar_index'}`;
      const asked = { path, body: { column, name: index, ...options } };
      return { name: `create_index ${name}`, asked, after: [index], repetition };
    }
    const path = `/v1/table/${table}/index/${first}/drop`;
    return { name: `drop index ${name}`, asked: { path }, after: state.slice(1), repetition };
  },
  observe: names,
  async verify(service, table) {
    const ids = await idsOf(service, table, all);
    for (const { query, finds } of asks) {
      if (query.full_text_query !== undefined && (await names(service, table)).length === 0) continue;
      const expected = finds(ids).toSorted((a, b) => a - b);
      assert.deepEqual(await idsOf(service, table, query), expected, `${table}: ${JSON.stringify(query)}`);
    }
  },
});

export const indexSubjects: readonly Subject<readonly string[]>[] = families.map(indexes);
