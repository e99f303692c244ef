/**
 * Black box: resident memory stays under its configured limit, whatever clients do. What is read is the most the process
 * ever had, as the kernel counts it.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Float64, Int64, makeData, Table, tableToIPC, Vector } from 'apache-arrow';
import { type ServiceProcess, serviceOfTest } from '#test/fixtures/service-process.ts';

const MB = 1e6;
const limitBytes = 700 * MB;
/** One principal sends everything here, so that it is the limit that decides and not its share. */
const flags = ['--memory-limit=700MB', '--principal-share=100%'];

/** Rows of 32 bytes: a key and three numbers. */
function rowsFrom(firstId: number, count: number): Uint8Array {
  const data = BigInt64Array.from({ length: count }, (_, i) => BigInt(firstId + i));
  const id = new Vector([makeData({ type: new Int64(), length: count, data })]);
  const numbers = (): Vector<Float64> => {
    const values = Float64Array.from({ length: count }, (_, i) => Math.sin(firstId + i));
    return new Vector([makeData({ type: new Float64(), length: count, data: values })]);
  };
  return tableToIPC(new Table({ id, a: numbers(), b: numbers(), c: numbers() }), 'stream');
}

const merge = async (service: ServiceProcess, table: string, body: Uint8Array): Promise<number> =>
  (await service.post(`/v1/table/${table}/merge_insert?on=id`, body)).status;

interface Answers {
  readonly accepted: number;
  readonly refused: number;
  readonly others: readonly number[];
}

const count = (statuses: readonly number[]): Answers => ({
  accepted: statuses.filter((status) => status === 200).length,
  refused: statuses.filter((status) => status === 503).length,
  others: statuses.filter((status) => status !== 200 && status !== 503),
});

/** Each client sends the next body when the last is answered. */
async function write(
  clients: number,
  requestsEach: number,
  send: (client: number, turn: number) => Promise<number>,
): Promise<Answers> {
  const client = async (index: number): Promise<number[]> => {
    const statuses: number[] = [];
    for (let turn = 0; turn < requestsEach; turn++) statuses.push(await send(index, turn));
    return statuses;
  };
  return count((await Promise.all(Array.from({ length: clients }, (_, index) => client(index)))).flat());
}

describe('resident memory stays under a limit of 700 MB, and the service goes on', () => {
  test('while hundreds of writers fill a table', async (t) => {
    const service = await serviceOfTest((clean) => t.after(clean), ...flags);
    assert.equal((await service.post('/v1/table/t/create', rowsFrom(0, 50_000))).status, 200);
    const rows = 200;
    const answers = await write(256, 5, (client, turn) => {
      const isNew = (client + turn) % 2 === 0;
      const firstId = isNew ? 100_000 + (turn * 256 + client) * rows : (client * rows) % 50_000;
      return merge(service, 't', rowsFrom(firstId, rows));
    });
    const { peakBytes } = service.memory();
    t.diagnostic(
      `${answers.accepted} merges, ${answers.refused} refused; ${Math.round(peakBytes / MB)} MB at the most`,
    );
    assert.deepEqual(answers.others, []);
    assert.ok(answers.accepted > 640, `${answers.accepted} accepted`);
    assert.ok(peakBytes < limitBytes, `${peakBytes} bytes`);
    assert.equal(await service.metric('lancegate_memory_full'), 0);
  });

  test('while bodies come at once that are many times as large together: those are refused, and it recovers', async (t) => {
    const service = await serviceOfTest((clean) => t.after(clean), ...flags);
    const tables = Array.from({ length: 8 }, (_, i) => `t${i}`);
    for (const table of tables) {
      assert.equal((await service.post(`/v1/table/${table}/create`, rowsFrom(0, 1_000))).status, 200);
    }
    const large = rowsFrom(500, 250_000);
    assert.ok(large.length > 8 * MB, `${large.length}`);
    const burst = await write(32, 1, (client) => merge(service, `t${client % 8}`, large));
    const creates = await write(16, 1, async (client) => {
      const { status } = await service.post(`/v1/table/new${client}/create`, large);
      return status;
    });
    const { peakBytes } = service.memory();
    t.diagnostic(`merges ${burst.accepted} of 32, creates ${creates.accepted} of 16 x ${large.length / MB} MB`);
    t.diagnostic(`${Math.round(peakBytes / MB)} MB at the most`);
    assert.deepEqual([...burst.others, ...creates.others], []);
    assert.ok(burst.accepted > 0 && burst.refused > 0, JSON.stringify(burst));
    assert.ok(creates.accepted > 0, JSON.stringify(creates));
    assert.ok(peakBytes < limitBytes, `${peakBytes} bytes`);
    const afterwards = await write(8, 5, (client) => merge(service, `t${client}`, rowsFrom(client, 100)));
    assert.deepEqual(afterwards, { accepted: 40, refused: 0, others: [] });
    assert.equal(await service.metric('lancegate_body_memory_bytes'), 0);
    assert.equal(service.death, undefined);
  });
});
