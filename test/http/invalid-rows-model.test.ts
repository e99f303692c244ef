/**
 * Random sources with random broken rows, of every format, into creates, inserts and merges, against a reference that broke the rows
 * itself. `LANCEGATE_INVALID_STEPS` and `LANCEGATE_INVALID_SEED` give more of them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DateDay,
  Field,
  FixedSizeList,
  Float32,
  Int8,
  Int32,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  Table,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import type { Row } from './rows.ts';

const { LANCEGATE_INVALID_SEED, LANCEGATE_INVALID_STEPS } = process.env;
const seed = Number(LANCEGATE_INVALID_SEED ?? Date.now() % 1_000_000);
const steps = Number(LANCEGATE_INVALID_STEPS ?? 150);

interface Sent {
  readonly id: unknown;
  readonly name: unknown;
  readonly small: unknown;
  readonly day: unknown;
  readonly v: unknown;
}

type Format = 'json' | 'ndjson' | 'csv' | 'arrow';
type Way = 'merge' | 'append' | 'overwrite' | 'create';
/** What may be broken in a row: of those that make a table only what cannot be read, since they decide the types. */
type Breaks = 'key too' | 'values' | 'text';

/** `text` stands in the source for a row that is none. */
interface SentRow {
  readonly sent: Sent;
  readonly isBad: boolean;
  readonly text?: string;
}

const item = new Field('item', new Float32(), true);
const fields = (nullableName: boolean) => [
  new Field('id', new Int32(), true),
  new Field('name', new Utf8(), nullableName),
  new Field('small', new Int8(), true),
  new Field('day', new DateDay(), true),
  new Field('v', new FixedSizeList(2, item), true),
];

/** What breaks a row of a text, which a row of Arrow with these types cannot have but for the NULL. */
const faults: readonly ((sent: Sent) => Sent)[] = [
  (sent) => ({ ...sent, name: null }),
  (sent) => ({ ...sent, id: 'x1' }),
  (sent) => ({ ...sent, id: 2 ** 31 }),
  (sent) => ({ ...sent, id: 1.5 }),
  (sent) => ({ ...sent, small: 128 }),
  (sent) => ({ ...sent, small: -129 }),
  (sent) => ({ ...sent, small: true }),
  (sent) => ({ ...sent, day: '2026-02-30' }),
  (sent) => ({ ...sent, day: 'yesterday' }),
  (sent) => ({ ...sent, v: [1, 2, 3] }),
  (sent) => ({ ...sent, v: [1] }),
  (sent) => ({ ...sent, v: [1, 'x'] }),
];

class Source {
  readonly format: Format;
  readonly rows: readonly SentRow[];

  constructor(format: Format, rows: readonly SentRow[]) {
    this.format = format;
    this.rows = rows;
  }

  get headers(): Record<string, string> {
    const types = { json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' };
    return this.format === 'arrow' ? {} : { 'content-type': types[this.format] };
  }

  get body(): Buffer {
    const sent = this.rows.map((row) => row.sent);
    if (this.format === 'json') return Buffer.from(JSON.stringify(sent));
    if (this.format === 'ndjson')
      return Buffer.from(this.rows.map((row) => row.text ?? JSON.stringify(row.sent)).join('\n'));
    if (this.format === 'csv') {
      const lines = this.rows.map((row) => row.text ?? Object.values(row.sent).map(cell).join(','));
      return Buffer.from(`id,name,small,day,v\n${lines.join('\n')}\n`);
    }
    return arrowOf(sent);
  }
}

const cell = (value: unknown): string =>
  value === null
    ? ''
    : `"${(typeof value === 'object' ? JSON.stringify(value) : String(value)).replaceAll('"', '""')}"`;

const valueIn = (row: Sent, name: keyof Sent): unknown => (name === 'day' ? new Date(String(row.day)) : row[name]);

/** In several batches. */
function arrowOf(sent: readonly Sent[]): Buffer {
  const schema = new Schema(fields(true));
  const batches = Array.from({ length: Math.ceil(sent.length / 7) }, (_, i) => {
    const rows = sent.slice(i * 7, i * 7 + 7);
    const columns = schema.fields.map(({ name, type }) =>
      vectorFromArray(
        rows.map((row) => valueIn(row, name as keyof Sent)),
        type,
      ),
    );
    const children = columns.flatMap(({ data }) => data);
    const struct = new Struct(schema.fields);
    return new RecordBatch(
      schema,
      vectorFromArray([], struct).data[0]!.clone(struct, 0, rows.length, 0, undefined, children),
    );
  });
  const writer = new RecordBatchStreamWriter();
  writer.write(new Table(schema, batches));
  writer.finish();
  return Buffer.from(writer.toUint8Array(true));
}

class Programs {
  readonly #random: Random;
  #last = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Keys are new, so that sources of clients that write at once have nothing in common. */
  source(breaks: Breaks): Source {
    const format = this.#random.pick<Format>(['json', 'ndjson', 'csv', 'arrow']);
    const share = this.#random.pick([0, 0.1, 0.5, 1]);
    const rows = Array.from({ length: 1 + this.#random.int(40) }, () =>
      this.#row(format, this.#random.int(100) < share * 100 ? breaks : undefined),
    );
    return new Source(format, rows);
  }

  #row(format: Format, breaks: Breaks | undefined): SentRow {
    const id = ++this.#last;
    const small = this.#random.int(256) - 128;
    const sent = {
      id,
      name: `n${id}`,
      small,
      day: `2026-01-${10 + (id % 20)}`,
      v: format !== 'arrow' && this.#random.chance(30) ? null : [id % 7, 0.5],
    };
    const isText = format === 'ndjson' || format === 'csv';
    if (breaks === undefined || (breaks === 'text' && !isText)) return { sent, isBad: false };
    if (breaks === 'key too' && this.#random.int(4) === 0) return { sent: { ...sent, id: null }, isBad: true };
    if (isText && (breaks === 'text' || this.#random.int(6) === 0))
      return { sent, isBad: true, text: format === 'csv' ? '1,2' : '{"id":' };
    const fault = format === 'arrow' ? faults[0]! : this.#random.pick(faults);
    return { sent: fault(sent), isBad: true };
  }
}

const pathOf = (way: Way, query: string): string =>
  way === 'create'
    ? `t/create?mode=overwrite&${query}`
    : way === 'merge'
      ? `t/merge_insert?on=id&key_required=true&${query}`
      : `t/insert?mode=${way}&${query}`;

/** Sends it, and checks the report against what was broken. Answers the rows that are to be there. */
async function send(service: TestService, random: Random, way: Way, source: Source): Promise<readonly Sent[]> {
  const bad = source.rows.flatMap((row, i) => (row.isBad ? [i + 1] : []));
  const most = random.pick([undefined, `${random.int(12)}`, '0.3']);
  const isReported = random.int(8) > 0;
  const query = `on_invalid=${isReported ? 'report' : ''}${most === undefined ? '' : `&max_invalid=${most}`}`;
  const isMany = most?.includes('.')
    ? bad.length / source.rows.length > 0.3
    : bad.length > Number(most ?? Number.POSITIVE_INFINITY);
  const headers = { ...source.headers, 'idempotency-key': `k${random.int(1e9)}-${source.rows[0]?.sent.name}` };
  const post = () => service.post(`/v1/table/${pathOf(way, query)}`, source.body, headers);
  const answer = await post();
  const told = () =>
    `${way} ${source.format} ${query}: ${JSON.stringify(answer.body)}\n${source.body.toString().slice(0, 3_000)}`;
  const makesColumns = way === 'create' || way === 'overwrite';
  const isNothing = makesColumns && bad.length === source.rows.length; // there are no columns then
  const isRefused = isNothing || (bad.length > 0 && (!isReported || isMany));
  assert.equal(answer.status, isRefused ? 400 : 200, told());
  if (isRefused) return [];
  const kept = source.rows.filter((row) => !row.isBad).map((row) => row.sent);
  if (way !== 'create') assert.equal(answer.body.num_inserted_rows, kept.length, told());
  if (!isReported) return kept;
  const listed = answer.body.invalid_rows as readonly { readonly row: number; readonly reason: string }[];
  assert.deepEqual([answer.body.num_invalid_rows, listed.map(({ row }) => row)], [bad.length, bad], told());
  if (random.int(4) > 0) return kept;
  const again = await post();
  const { context: _, columns: __, ...first } = answer.body;
  const { context: ___, columns: ____, ...second } = again.body;
  assert.deepEqual(second, first, told());
  return kept;
}

async function startTable(service: TestService): Promise<void> {
  const none = Buffer.from(tableToIPC(new Table(new Schema(fields(false))), 'stream'));
  assert.equal((await service.post('/v1/table/t/create?mode=overwrite', none)).status, 200);
}

async function ids(service: TestService): Promise<readonly unknown[]> {
  return (await queried(service)).map(({ id }) => Number(id)).toSorted((a, b) => a - b);
}

const shown = ({ id, name, small, day, v }: Row): string => JSON.stringify([id, name, small, day, v]);

async function queried(service: TestService): Promise<readonly Row[]> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const { body } = await service.post('/v1/table/t/query', Buffer.from('{"k":1000000}'), headers);
  return body.rows as readonly Row[];
}

const stored = async (service: TestService): Promise<readonly string[]> =>
  (await queried(service)).map(shown).toSorted();

test(`${steps} sources with broken rows leave what was not broken, with exact reports (P1, P2, P4, P6), seed ${seed}`, async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const random = new Random(seed);
  const programs = new Programs(random);
  for (let step = 0; step < steps; ) {
    await startTable(service);
    const there: Sent[] = [];
    for (let round = 0; round < 6; round++) {
      const clients = Array.from({ length: 1 + random.int(6) }, () => {
        const way = random.pick<Way>(['merge', 'append', 'append']);
        return send(service, random, way, programs.source(way === 'merge' ? 'key too' : 'values'));
      });
      for (const kept of await Promise.all(clients)) there.push(...kept);
      step += clients.length;
    }
    assert.deepEqual(await stored(service), there.map((row) => shown({ ...row })).toSorted(), `after step ${step}`);
    const replaced = await send(service, random, random.pick<Way>(['create', 'overwrite']), programs.source('text'));
    step += 1;
    if (replaced.length > 0)
      assert.deepEqual(
        await ids(service),
        replaced.map(({ id }) => id),
        `after step ${step}`,
      );
  }
});
