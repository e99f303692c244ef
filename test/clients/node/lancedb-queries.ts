/** Every method of the query builders of the LanceDB SDK for Node: how each is called, and what then comes out. */
import {
  BooleanQuery,
  BoostQuery,
  MatchQuery,
  MultiMatchQuery,
  Occur,
  PhraseQuery,
  type Query,
  rerankers,
  type TakeQuery,
  type VectorQuery,
} from '@lancedb/lancedb';
import { expect, fails, methodsOf } from './cases.ts';
import type { LanceDbCase } from './lancedb-cases.ts';
import { byId, internal, type Kind, kinds, type LanceDbSide, vectorOf } from './lancedb-sides.ts';

const text = 'river lamp';
const descending = [
  { columnName: 'score', ascending: false, nullsFirst: false },
  { columnName: 'id', ascending: true, nullsFirst: false },
];

type Builder = Query | VectorQuery | TakeQuery;
type Changing = Readonly<Record<string, readonly unknown[]>>;

const ofEvery: Changing = { select: [['id', 'name']], withRowId: [], useLsm: [false] };
const ofStandard: Changing = {
  ...ofEvery,
  where: ['id < 100 AND score IS NOT NULL'],
  filter: ['id < 100 AND score IS NOT NULL'],
  fullTextSearch: [text, { columns: 'text' }],
  limit: [7],
  offset: [2],
  orderBy: [descending],
  fastSearch: [],
};
/** How each method that changes a query is called. */
const changing: Readonly<Record<string, Changing>> = {
  Query: { ...ofStandard, nearestTo: [vectorOf(3)], nearestToText: [text, ['text']] },
  VectorQuery: {
    ...ofStandard,
    nprobes: [4],
    minimumNprobes: [4],
    maximumNprobes: [30],
    distanceRange: [0.5, 60],
    ef: [200],
    column: ['vector'],
    distanceType: ['cosine'],
    refineFactor: [10],
    postfilter: [],
    bypassVectorIndex: [],
    addQueryVector: [vectorOf(11)],
  },
  TakeQuery: ofEvery,
};

const throughAnIndex = new Set([
  'nprobes',
  'minimumNprobes',
  'maximumNprobes',
  'ef',
  'refineFactor',
  'bypassVectorIndex',
]);

/** What ends a query, and what it gives to compare. */
const ending: Readonly<Record<string, (asked: Builder) => Promise<unknown>>> = {
  toArray: async (asked) => rowsOf(await asked.toArray()),
  toArrow: async (asked) => {
    const found = await asked.toArrow();
    return [found.schema.fields.map(({ name, type }) => `${name}: ${String(type)}`), rowsOf(found.toArray())];
  },
  execute: async (asked) => {
    const rows: unknown[] = [];
    // The SDK protects it; a program without types calls it.
    const batches = (asked as unknown as { execute(): AsyncIterable<{ toArray(): unknown[] }> }).execute();
    for await (const batch of batches) rows.push(...batch.toArray());
    return rowsOf(rows);
  },
  outputSchema: async (asked) => (await asked.outputSchema()).fields.map(({ name }) => name),
  explainPlan: async (asked) => planOf(await asked.explainPlan(true), /Lance|Take/),
  analyzePlan: async (asked) => planOf(await asked.analyzePlan(), /metrics|elapsed/),
};

function planOf(plan: string, says: RegExp): void {
  expect(says.test(plan), `the plan is ${plan.slice(0, 200)}`);
  expect(!plan.includes('lancegate-clients-'), `the plan shows where the table is: ${plan.slice(0, 300)}`);
}

/** Row ids may differ, and a scan has no order. */
const rowsOf = (rows: readonly unknown[]): unknown =>
  byId(rows).map(({ _rowid, ...row }) => ({ ...row, hasRowId: _rowid !== undefined }));

async function begin(side: LanceDbSide, kind: Kind, method: string): Promise<Builder> {
  const isText = /text/i.test(method);
  const table = await side.shared(isText ? 'searchable' : throughAnIndex.has(method) ? 'indexed' : 'plain');
  if (kind === 'TakeQuery') return table.takeOffsets([3, 1, 200]);
  return kind === 'VectorQuery' ? table.vectorSearch(vectorOf(3)) : table.query();
}

function caseOf(kind: Kind, method: string): LanceDbCase {
  const of = [`${kind}.${method}`];
  const end = ending[method];
  const isPlan = method.endsWith('Plan');
  if (end !== undefined) {
    const act = async (side: LanceDbSide) => end(limited(await begin(side, kind, method)));
    return isPlan ? { of, act, alone: true } : { of, act };
  }
  if (method === 'rerank') return { of, act: hybrid };
  return {
    of,
    act: async (side) => {
      const given = changing[kind]?.[method];
      if (given === undefined) throw new Error('no case tries it');
      const asked = await begin(side, kind, method);
      const change = Reflect.get(asked, method) as (...given: readonly unknown[]) => Builder;
      const changed = change.apply(asked, [...given]);
      const rows = await (method === 'limit' ? changed : limited(changed)).toArray();
      if (kind === 'Query' && (method === 'limit' || method === 'offset')) return rows.length;
      if (method === 'orderBy') return rows.map((row: { readonly id: number }) => row.id);
      return rowsOf(rows);
    },
  };
}

const limited = (asked: Builder): Builder =>
  'limit' in asked ? asked.limit(20 + ('nprobes' in asked ? 0 : 280)) : asked;

async function hybrid(side: LanceDbSide): Promise<unknown> {
  const searchable = await side.shared('searchable');
  const asked = searchable.query().nearestToText(text, ['text']) as unknown as Query;
  const reranker = await rerankers.RRFReranker.create();
  const found = await (asked.nearestTo(vectorOf(3)) as VectorQuery).rerank(reranker).limit(10).toArray();
  return found.map((row: { readonly id: number }) => row.id).sort();
}

const structured = {
  match: new MatchQuery('river stone', 'text'),
  fuzzy: new MatchQuery('rivver', 'text', { fuzziness: 1 }),
  phrase: new PhraseQuery('river stone', 'text'),
  boost: new BoostQuery(new MatchQuery('river', 'text'), new MatchQuery('lamp', 'text'), { negativeBoost: 0.2 }),
  multi: new MultiMatchQuery('river', ['text']),
  boolean: new BooleanQuery([
    [Occur.Must, new MatchQuery('river', 'text')],
    [Occur.MustNot, new MatchQuery('copper', 'text')],
  ]),
};

const textCases = Object.values(structured).map(
  (asked): LanceDbCase => ({
    of: ['Query.nearestToText'],
    act: async (side) => {
      const searchable = await side.shared('searchable');
      return rowsOf(await searchable.query().nearestToText(asked).limit(300).toArray());
    },
  }),
);

const combined: readonly LanceDbCase[] = [
  {
    of: ['Query.where', 'Query.select', 'Query.orderBy', 'Query.limit', 'Query.offset'],
    act: async (side) => {
      const table = await side.shared('plain');
      const asked = () => table.query().where('score > 5').orderBy(descending).limit(10);
      const first = await asked().select({ half: 'score / 2', id: 'id', loud: 'upper(name)' }).toArray();
      const second = await asked().select(['id']).offset(10).toArray();
      const beyond = await asked().offset(100_000).toArray();
      return [first, second, beyond, await fails(() => table.query().where('no_such_column = 1').toArray())];
    },
  },
  {
    of: ['VectorQuery.where', 'VectorQuery.distanceType', 'VectorQuery.postfilter'],
    act: async (side) => {
      const table = await side.shared('plain');
      const near = (metric: 'l2' | 'cosine' | 'dot') =>
        table.vectorSearch(vectorOf(3)).distanceType(metric).where('id > 50').limit(12).toArray();
      const after = await table.vectorSearch(vectorOf(3)).where('id > 120').postfilter().limit(20).toArray();
      const wrong = await fails(() => table.vectorSearch([1, 2, 3]).limit(2).toArray());
      return [await near('l2'), await near('cosine'), await near('dot'), after, wrong];
    },
  },
];

export const queryCases: readonly LanceDbCase[] = [
  ...(['Query', 'VectorQuery', 'TakeQuery'] as const).flatMap((kind) =>
    methodsOf(kinds[kind].prototype)
      .filter((method) => !internal.has(method))
      .map((method) => caseOf(kind, method)),
  ),
  ...textCases,
  ...combined,
];
