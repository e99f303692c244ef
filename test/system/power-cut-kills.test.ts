/**
 * One data folder, one process after the other, each killed under load at a moment of its own.
 * `LANCEGATE_TEST_KILLS` sets how often.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { mintToken, type ServiceProcess, startServiceProcess } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const kills = Number(process.env.LANCEGATE_TEST_KILLS ?? 3);
const clients = 8;
const sharedKey = 0;
const rowsPerRequest = 3;

/** Two rows of its own, and one that every request writes. */
function rowsOf(request: number): Uint8Array {
  const keys = [2 * request, 2 * request + 1, sharedKey];
  return tableToIPC(
    new Table({
      key: vectorFromArray(keys, new Int32()),
      request: vectorFromArray(
        keys.map(() => request),
        new Int32(),
      ),
    }),
    'stream',
  );
}

interface Ledger {
  sent: number;
  readonly acknowledged: Set<number>;
}

const upsert = (service: ServiceProcess, request: number) =>
  service.post('/v1/table/t/merge_insert?on=key', rowsOf(request));

/** Writes with all clients until so many answers have come, and kills the process with requests in every stage. */
async function writeUntilKilled(service: ServiceProcess, ledger: Ledger, answers: number): Promise<void> {
  let left = answers;
  let killed: Promise<void> | undefined;
  const client = async (): Promise<void> => {
    while (killed === undefined) {
      ledger.sent += 1;
      const request = ledger.sent;
      const answer = await upsert(service, request).catch(() => undefined);
      if (answer === undefined) return;
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      ledger.acknowledged.add(request);
      left -= 1;
      if (left === 0) killed = service.kill();
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  await killed;
}

/** Read by plain LanceDB, as any program with access to the folder would. */
async function requireWhole(data: string, { sent, acknowledged }: Ledger): Promise<void> {
  const table = await (await connect(join(data, 'tables'))).openTable('t');
  const rows = (await table.query().toArray()).map((row) => ({ key: Number(row.key), request: Number(row.request) }));
  assert.equal(new Set(rows.map(({ key }) => key)).size, rows.length, 'a key is there twice');
  const own = Map.groupBy(
    rows.filter(({ key }) => key !== sharedKey),
    ({ request }) => request,
  );
  for (let request = 1; request <= sent; request += 1) {
    const found = own.get(request)?.length ?? 0;
    if (acknowledged.has(request)) assert.equal(found, rowsPerRequest - 1, `request ${request} was acknowledged`);
    else assert.ok(found === 0 || found === rowsPerRequest - 1, `of request ${request} there are ${found} rows`);
  }
  const last = rows.find(({ key }) => key === sharedKey)?.request ?? 0;
  assert.ok(own.has(last), 'the shared row is of a request that is there');
}

test(`${kills} times killed under load, every acknowledged row is there, every other request wholly or not at all (P1, P2, P3)`, async (t) => {
  const later = lastFirst((clean) => t.after(clean));
  const data = temporaryFolder(later);
  const token = await mintToken(data);
  const ledger: Ledger = { sent: 0, acknowledged: new Set() };
  let service = await startServiceProcess(data, token);
  later(() => service.kill());
  assert.equal(
    (
      await service.post(
        '/v1/table/t/create',
        tableToIPC(
          new Table({ key: vectorFromArray([sharedKey], new Int32()), request: vectorFromArray([1], new Int32()) }),
          'stream',
        ),
      )
    ).status,
    200,
  );
  for (let round = 0; round < kills; round += 1) {
    await writeUntilKilled(service, ledger, 1 + ((round * 37) % 150));
    service = await startServiceProcess(data, token);
    await requireWhole(data, ledger);
  }
  assert.equal((await upsert(service, ledger.sent + 1)).body.num_inserted_rows, 2);
  assert.equal(await service.stop(), 0);
  t.diagnostic(`${ledger.sent} requests sent, ${ledger.acknowledged.size} acknowledged`);
});
