/**
 * What a query costs whose answer is text, compared with the same answer in Arrow: `npm run bench:texts`, or with another number of
 * rows. The forms take turns; the service is a process of its own, and the client counts bytes and decodes nothing.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Bool,
  type DataType,
  Float32,
  Float64,
  Int32,
  Int64,
  Table,
  TimestampMicrosecond,
  tableToIPC,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { median } from './measure.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { countStolenTime, shownPart } from './stolen-time.ts';

const rows = Number(process.argv[2] ?? 100_000);
const rounds = 25;
/** So that V8 has compiled what writes the text. */
const warmUps = 15;

const forms = {
  'Arrow file': '*/*',
  'Arrow stream': 'application/vnd.apache.arrow.stream',
  NDJSON: 'application/x-ndjson',
  JSON: 'application/json',
  CSV: 'text/csv',
} as const;
type Form = keyof typeof forms;

/** Ten scalars: whole numbers, prices, measured values with all their digits, texts, a mark and a time. */
function tenColumns(): Table {
  const column = <Type extends DataType>(type: Type, at: (row: number) => unknown): Vector<Type> =>
    vectorFromArray(
      Array.from({ length: rows }, (_, row) => at(row)),
      type,
    ) as Vector<Type>;
  const scattered = (row: number): number => (row * 2_654_435_761) % 2 ** 32;
  return new Table({
    id: column(new Int64(), (row) => BigInt(row)),
    count: column(new Int32(), (row) => scattered(row) % 1_000_000),
    price: column(new Float64(), (row) => (scattered(row) % 100_000) / 100),
    measured: column(new Float64(), (row) => scattered(row) / 2 ** 32),
    share: column(new Float32(), (row) => (scattered(row) % 1_000) / 1_000),
    name: column(new Utf8(), (row) => `name ${row}`),
    city: column(new Utf8(), (row) => ['Lisbon', 'Oslo', 'San Sebastián', 'Ulaanbaatar'][scattered(row) % 4]),
    note: column(new Utf8(), (row) => `what is said of row ${row}`),
    isOpen: column(new Bool(), (row) => scattered(row) % 2 === 0),
    at: column(new TimestampMicrosecond(), (row) => 1_700_000_000_000 + scattered(row)),
  });
}

/** The bytes of the answer. */
async function read(service: ServiceProcess, form: Form): Promise<number> {
  const sent = request({
    port: service.port,
    path: '/v1/table/rows/query',
    method: 'POST',
    headers: {
      authorization: `Bearer ${service.token}`,
      'content-type': 'application/json',
      accept: forms[form],
    },
  });
  sent.end(JSON.stringify({ vector: [], k: rows }));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  let bytes = 0;
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(answer, 'end');
  if (answer.statusCode !== 200) throw new Error(`${form}: ${answer.statusCode}`);
  return bytes;
}

async function inRounds(service: ServiceProcess) {
  const names = Object.keys(forms) as Form[];
  const measured = new Map(names.map((form) => [form, { bytes: 0, timesMs: [] as number[] }]));
  for (let round = 0; round < warmUps + rounds; round++) {
    for (const [form, entry] of measured) {
      const start = performance.now();
      entry.bytes = await read(service, form);
      if (round >= warmUps) entry.timesMs.push(performance.now() - start);
    }
  }
  return measured;
}

const folder = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
const stolenPart = countStolenTime();
const service = await startServiceProcess(join(folder, 'data'));
try {
  await service.post('/v1/table/rows/create', [tableToIPC(tenColumns(), 'stream')]);
  const measured = await inRounds(service);
  const arrowMs = median(measured.get('Arrow file')!.timesMs);
  console.log(`| answer of ${rows} rows | MB | median, ms | fastest, ms | of the Arrow file |\n|---|---|---|---|---|`);
  for (const [form, { bytes, timesMs }] of measured) {
    const figures = [bytes / 1e6, median(timesMs), Math.min(...timesMs)].map((value) => value.toFixed(1));
    console.log(`| ${form} | ${figures.join(' | ')} | ${(median(timesMs) / arrowMs).toFixed(2)}x |`);
  }
  console.log(`\nstolen: ${shownPart(stolenPart())}`);
} finally {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
}
