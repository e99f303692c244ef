/**
 * What a query costs through lancegate, compared with the same query by the engine in the process that asks: `npm run
 * bench:reads`, or with another number of rows. Both sides read one table, in turns, and both decode what they get. In turn with
 * them goes a bare relay, which does nothing but what no service in front of reader processes can leave out. Then what readers
 * cost writers.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { connect, Index, type Table as Queried } from '@lancedb/lancedb';
import {
  Field,
  Float64,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Table,
  tableFromIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { type BareQuery, type BareRelay, startBareRelay } from './bare-relay.ts';
import { compareBesideReaders } from './beside-readers.ts';
import { inTurns } from './in-turns.ts';
import { median, type Row, table as shownTable, timeMs } from './measure.ts';
import { RawClient } from './raw-client.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { countStolenTime, shownPart, stolenRow } from './stolen-time.ts';
import { bodyOf, keyedStream, repeatedStream } from './workloads.ts';

const rows = Number(process.argv[2] ?? 1_000_000);
const dimension = 128;
const repeats = 200;
/** So that V8 has compiled what each side runs. */
const warmUps = 100;
const wideColumns = 16;
const wideRowsPerBatch = 50_000;

interface Case {
  readonly what: string;
  readonly table: 'points' | 'texts';
  readonly body: (turn: number) => object;
  readonly bare: (turn: number) => Omit<BareQuery, 'folder'>;
  readonly embedded: (table: Queried, turn: number) => Promise<{ readonly numRows: number }>;
}

const keyOf = (turn: number): number => (turn * 7_919) % rows;
const vectorOf = (turn: number): number[] =>
  Array.from({ length: dimension }, (_, i) => ((turn * 31 + i * 17) % 97) / 97);
const wordOf = (turn: number): string => `word${turn % 500}`;

const cases: readonly Case[] = [
  {
    what: 'point lookup by key, BTREE',
    table: 'points',
    body: (turn) => ({ vector: [], k: 2 ** 63, prefilter: true, filter: `id = ${keyOf(turn)}` }),
    bare: (turn) => ({ filter: `id = ${keyOf(turn)}` }),
    embedded: (table, turn) =>
      table
        .query()
        .where(`id = ${keyOf(turn)}`)
        .toArrow(),
  },
  {
    what: `top 10 of ${dimension} floats, IVF_PQ`,
    table: 'points',
    body: (turn) => ({ vector: vectorOf(turn), k: 10, prefilter: true, columns: ['id', '_distance'] }),
    bare: (turn) => ({ vector: vectorOf(turn), columns: ['id', '_distance'], limit: 10 }),
    embedded: (table, turn) => table.query().nearestTo(vectorOf(turn)).select(['id', '_distance']).limit(10).toArrow(),
  },
  {
    what: 'top 10 of a full-text search',
    table: 'texts',
    body: (turn) => ({ vector: [], k: 10, prefilter: true, full_text_query: { query: wordOf(turn), columns: [] } }),
    bare: (turn) => ({ words: wordOf(turn), limit: 10 }),
    embedded: (table, turn) => table.query().fullTextSearch(wordOf(turn)).limit(10).toArrow(),
  },
];

const folder = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
const stolenPart = countStolenTime();
const service = await startServiceProcess(join(folder, 'data'));
const relay = await startBareRelay();
try {
  const opened = await makeTables();
  const shown: Row[] = [];
  for (const one of cases) shown.push(...(await compareSmall(one, opened[one.table], relay)));
  shown.push(await compareStream(opened.wide));
  shown.push(...(await compareBesideReaders(service, { writers: 64, readers: 64, seconds: 15, query: pointLookup })));
  shown.push(stolenRow(shownPart(stolenPart())));
  process.stdout.write(`${shownTable(shown)}\n`);
} finally {
  relay.stop();
  await service.stop();
  await rm(folder, { recursive: true, force: true });
}

async function makeTables() {
  await service.post('/v1/table/points/create', keyedStream(rows, dimension));
  await service.post('/v1/table/texts/create', bodyOf(texts(Math.min(rows, 200_000))).stream);
  await service.post('/v1/table/wide/create', repeatedStream(wideBatch(), Math.ceil(rows / wideRowsPerBatch)));
  const [points, text, wide] = [await open('points'), await open('texts'), await open('wide')];
  await points.createIndex('id', { config: Index.btree() });
  await points.createIndex('vector', { config: Index.ivfPq() });
  await text.createIndex('text', { config: Index.fts() });
  return { points, texts: text, wide };
}

async function open(name: string): Promise<Queried> {
  const location = await service.folderOf(name);
  return (await connect(dirname(location))).openTable(basename(location, '.lance'));
}

function texts(count: number): Table {
  const values = Array.from({ length: count }, (_, i) => `word${i % 500} some more of them ${i} end${i % 7}`);
  return new Table({ text: vectorFromArray(values, new Utf8()) });
}

function wideBatch(): Table {
  const fields = Array.from({ length: wideColumns }, (_, i) => new Field(`c${i}`, new Float64(), true));
  const schema = new Schema(fields);
  const children = fields.map((_, column) => {
    const data = Float64Array.from({ length: wideRowsPerBatch }, (_value, i) => Math.sin(i * (column + 1)));
    return makeData({ type: new Float64(), length: wideRowsPerBatch, nullCount: 0, data });
  });
  const data = makeData({ type: new Struct(fields), length: wideRowsPerBatch, nullCount: 0, children });
  return new Table(schema, [new RecordBatch(schema, data)]);
}

async function compareSmall(given: Case, direct: Queried, { port }: BareRelay): Promise<readonly Row[]> {
  const { what, table, body, bare, embedded } = given;
  const [client, bareClient] = [new RawClient(service.port), new RawClient(port)];
  const folder = await service.folderOf(table);
  const ours = (turn: number) => rowsFrom(client, requestOf(service, table, body(turn)));
  const relayed = (turn: number) => rowsFrom(bareClient, post(port, '/', JSON.stringify({ folder, ...bare(turn) })));
  const embeddedRows = async (turn: number): Promise<number> => (await embedded(direct, turn)).numRows;
  for (let turn = 0; turn < warmUps; turn++) {
    const found = [await ours(turn), await relayed(turn), await embeddedRows(turn)];
    if (new Set(found).size > 1) throw new Error(`${what}: ${found} rows`);
  }
  let [mine, theirs] = [0, 0];
  const { first, second } = await inTurns(
    repeats,
    () => timeMs(() => ours(++mine)),
    async () => {
      const embeddedMs = await timeMs(() => embeddedRows(++theirs));
      const relayMs = await timeMs(() => relayed(theirs));
      const emptyMs = await timeMs(() => bareClient.send(post(port, '/', '')));
      return { embeddedMs, relayMs, emptyMs };
    },
  );
  client.close();
  bareClient.close();
  const embeddedMs = median(second.map((turn) => turn.embeddedMs));
  const emptyMs = median(second.map((turn) => turn.emptyMs));
  const floor = rowOf('- a bare relay of the same', median(second.map(({ relayMs }) => relayMs)), embeddedMs, '');
  return [
    rowOf(what, median(first), embeddedMs, 'at most 1.3x'),
    { ...floor, goal: `an empty request: ${emptyMs.toFixed(2)} ms` },
  ];
}

async function rowsFrom(client: RawClient, question: Buffer): Promise<number> {
  const { status, body } = await client.send(question);
  if (status !== 200) throw new Error(`${status} ${body}`);
  return tableFromIPC(body).numRows;
}

function requestOf({ port, token }: ServiceProcess, table: string, body: object): Buffer {
  return post(port, `/v1/table/${table}/query`, JSON.stringify(body), [`authorization: Bearer ${token}`]);
}

function post(port: number, path: string, text: string, headers: readonly string[] = []): Buffer {
  const head = [
    `POST ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    ...headers,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${text}`);
}

function pointLookup(reader: number, turn: number): Buffer {
  const [points] = cases;
  return requestOf(service, points!.table, points!.body(reader * 1_000 + turn));
}

/** Both sides end with a table in memory. */
async function compareStream(direct: Queried): Promise<Row> {
  const expected = await direct.countRows();
  const embedded = async (): Promise<void> => {
    const { numRows } = await direct.query().toArrow();
    if (numRows !== expected) throw new Error(`${numRows} rows`);
  };
  const ours = async (): Promise<void> => {
    const answer = await streamOf(service);
    const bytes = Buffer.concat(await answer.toArray());
    const { numRows } = tableFromIPC(bytes);
    if (numRows !== expected) throw new Error(`${numRows} rows`);
  };
  await ours();
  await embedded();
  const { first, second } = await inTurns(
    10,
    () => timeMs(ours),
    () => timeMs(embedded),
  );
  const what = `${expected} rows of ${wideColumns} columns`;
  return rowOf(what, median(first), median(second), 'at most 1.43x (0.7x the speed)');
}

async function streamOf({ url, token }: ServiceProcess): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const asked = request(`${url}/v1/table/wide/query`, { method: 'POST', headers });
  asked.end(JSON.stringify({ vector: [], k: 2 ** 63, prefilter: true }));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return answer;
}

function rowOf(what: string, ours: number, theirs: number, goal: string): Row {
  return {
    what,
    lancegate: `${ours.toFixed(2)} ms`,
    bareEngine: `${theirs.toFixed(2)} ms`,
    ratio: `${(ours / theirs).toFixed(2)}x`,
    goal,
  };
}
