/** Writes of every kind at once, by a process that is killed: each is in the tables wholly or not at all. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { mintToken, type ServiceProcess, startServiceProcess } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { bodyOf, multipart, part } from '#test/http/multipart-body.ts';

const clients = 4;
const killedAfter = 60;
const rowsPerInsert = 3;

const ints = (values: readonly number[]) => vectorFromArray(values, new Int32());
const stream = (columns: Readonly<Record<string, readonly number[]>>): Uint8Array =>
  tableToIPC(
    new Table(Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, ints(values)]))),
    'stream',
  );
const rowsOf = (request: number) => {
  const rows = Array.from({ length: rowsPerInsert }, () => request);
  return stream({ request: rows, n: rows.map(() => 1) });
};

/** What each client does with rows of its own, one after the other; the last one takes one from an account and gives it to another. */
const steps = ['insert', 'update', 'delete', 'transact'] as const;
type Step = (typeof steps)[number];

/** Of each request, which steps were sent and which were acknowledged. */
interface Ledger {
  readonly sent: Readonly<Record<Step, Set<number>>>;
  readonly done: Readonly<Record<Step, Set<number>>>;
}

const sets = () => ({
  insert: new Set<number>(),
  update: new Set<number>(),
  delete: new Set<number>(),
  transact: new Set<number>(),
});

function ask(service: ServiceProcess, step: Step, request: number): Promise<{ status: number }> {
  const predicate = `request = ${request}`;
  switch (step) {
    case 'insert':
      return service.post('/v1/table/rows/insert', rowsOf(request));
    case 'update':
      return service.post('/v1/table/rows/update', { predicate, updates: [['n', 'n + 1']] });
    case 'delete':
      return service.post('/v1/table/rows/delete', { predicate });
    case 'transact': {
      const moved = (id: number, n: string) =>
        part(`of-${id}`, { operation: 'update', predicate: `id = ${id}`, updates: [['n', n]] });
      const body = new Uint8Array(bodyOf([moved(1, 'n - 1'), moved(2, 'n + 1')]));
      const headers = { ...multipart, authorization: service.authorization };
      return fetch(`${service.url}/v1/table/accounts/transact`, { method: 'POST', headers, body });
    }
  }
}

async function writeUntilKilled(service: ServiceProcess): Promise<Ledger> {
  const ledger: Ledger = { sent: sets(), done: sets() };
  let requests = 0;
  let answers = 0;
  let killed: Promise<void> | undefined;
  const isLost = async (step: Step, request: number): Promise<boolean> => {
    ledger.sent[step].add(request);
    const answer = await ask(service, step, request).catch(() => undefined);
    if (answer === undefined) return true;
    assert.equal(answer.status, 200, step);
    ledger.done[step].add(request);
    answers += 1;
    if (answers === killedAfter) killed = service.kill();
    return false;
  };
  const client = async (): Promise<void> => {
    while (killed === undefined) {
      requests += 1;
      const request = requests;
      for (const step of steps) {
        if (step === 'delete' && request % 2 === 0) continue;
        if (await isLost(step, request)) return;
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  await killed;
  return ledger;
}

test('inserts, updates, deletes and several operations as one are there wholly or not at all (P1, P3)', async (t) => {
  const later = lastFirst((clean) => t.after(clean));
  const data = temporaryFolder(later);
  const token = await mintToken(data);
  const first = await startServiceProcess(data, token);
  later(() => first.kill());
  assert.equal((await first.post('/v1/table/rows/create', rowsOf(0))).status, 200);
  assert.equal((await first.post('/v1/table/accounts/create', stream({ id: [1, 2], n: [1000, 0] }))).status, 200);
  const { sent, done } = await writeUntilKilled(first);

  const second = await startServiceProcess(data, token);
  later(() => second.kill());
  const stored = await connect(join(data, 'tables'));
  const rows = await (await stored.openTable('rows')).query().toArray();
  for (const request of sent.insert) {
    const values = rows.filter((row) => row.request === request).map((row) => Number(row.n));
    const what = `${request}: ${values.join()}`;
    assert.ok(values.length === 0 || values.length === rowsPerInsert, what);
    assert.ok(new Set(values).size <= 1, what);
    if (done.insert.has(request) && !sent.delete.has(request)) assert.equal(values.length, rowsPerInsert, what);
    if (done.update.has(request) && !sent.delete.has(request)) assert.equal(values[0], 2, what);
    if (done.delete.has(request)) assert.deepEqual(values, [], what);
  }
  const accounts = await (await stored.openTable('accounts')).query().toArray();
  const balance = new Map(accounts.map((row) => [Number(row.id), Number(row.n)]));
  assert.equal(balance.get(1)! + balance.get(2)!, 1000);
  assert.ok(done.transact.size <= balance.get(2)! && balance.get(2)! <= sent.transact.size, `${balance.get(2)}`);
  assert.ok(Math.min(...steps.map((step) => done[step].size)) > 0);
  assert.equal(await second.stop(), 0);
});
