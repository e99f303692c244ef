import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, vectorFromArray } from 'apache-arrow';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { arrowStream } from '#test/fixtures/service.ts';
import { mintToken, type ServiceProcess, startServiceProcess } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { stream } from './rows.ts';

const clients = 4;

/** A row without a key is inserted each time it is merged, so one that is there twice was merged twice. */
const keyless = (n: number): Buffer => stream({ id: vectorFromArray([null], new Int32()), n: [n] });

interface Answer {
  readonly status: number;
  readonly isReplay: boolean;
  readonly fields: Record<string, unknown>;
}

async function send(service: ServiceProcess, token: string, n: number): Promise<Answer> {
  const response = await fetch(`${service.url}/v1/table/t/merge_insert?on=id`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': arrowStream, 'idempotency-key': `request-${n}` },
    body: new Uint8Array(keyless(n)),
  });
  const { context: _, ...fields } = (await response.json()) as Record<string, unknown>;
  return { status: response.status, isReplay: response.headers.get('idempotency-replayed') === 'true', fields };
}

test('after kill -9 at the first answer, and again at the 30th, every request sent again is in the table once (P6)', async (t) => {
  const later = lastFirst((clean) => t.after(clean));
  const data = temporaryFolder(later);
  const token = await mintToken(data);
  let service = await startServiceProcess(data, token);
  later(() => service.kill());
  assert.equal((await service.post('/v1/table/t/create', keyless(0))).status, 200);
  const answers = new Map<number, Answer>();
  let sent = 0;
  for (const acknowledgedBefore of [1, 30]) {
    const running = service;
    let killed: Promise<void> | undefined;
    const client = async (): Promise<void> => {
      while (killed === undefined) {
        sent += 1;
        const n = sent;
        const answer = await send(running, token, n).catch(() => undefined);
        if (answer === undefined) return;
        assert.equal(answer.status, 200, JSON.stringify(answer.fields));
        answers.set(n, answer);
        if (answers.size >= acknowledgedBefore) killed = running.kill();
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
    await killed;

    service = await startServiceProcess(data, token);
    for (let n = 1; n <= sent; n++) {
      const again = await send(service, token, n);
      const before = answers.get(n);
      if (before !== undefined) {
        assert.deepEqual([again.isReplay, again.fields], [true, before.fields], `request ${n} was acknowledged`);
      } else {
        assert.equal(again.fields.num_inserted_rows, 1, JSON.stringify(again.fields));
        answers.set(n, again);
      }
    }
    const table = await (await connect(join(data, 'tables'))).openTable('t');
    const stored = (await table.query().select(['n']).toArray()).map((row) => Number(row.n));
    for (let n = 1; n <= sent; n++) {
      const times = stored.filter((other) => other === n).length;
      assert.equal(times, 1, `request ${n}`);
    }
  }
  assert.equal(await service.stop(), 0);
});
