/** The bytes of a result between a reader and a client that take turns in waiting for each other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Answered } from '#src/query/protocol.ts';
import { RelayedResult, ResultSpools } from '#src/query/relayed-result.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { ManualClock } from '#test/http-unit/manual-clock.ts';

type After = { after: (clean: () => void) => void };

const partBytes = 1_000;
const never = new AbortController().signal;

/** A result of so many parts, each full of its number, whose reader goes as fast as it may. */
function relayed(t: After, parts: number, { mostBytes = 1 << 20, wantedBy = 'others' as 'others' | 'nobody' } = {}) {
  const clock = new ManualClock();
  const spools = new ResultSpools({ folder: temporaryFolder((clean) => t.after(clean)), mostBytes, principalShare: 1 });
  const wanted = { by: wantedBy };
  const isReaderWanted = () => wanted.by === 'others';
  const result = new RelayedResult({ signal: never, clock, spool: spools.spoolFor('p'), isReaderWanted });
  const reader = { sent: 0, isFree: false };
  const work = async (): Promise<Answered> => {
    for (; reader.sent < parts && !result.signal.aborted; reader.sent++) {
      await result.take({ bytes: Buffer.alloc(partBytes, reader.sent), readChunk: undefined });
    }
    reader.isFree = true;
    if (result.signal.aborted) throw new Error('killed');
    return { kind: 'queried', bytes: Buffer.from('end'), version: 1, rows: parts };
  };
  result.follow(work());
  /** Lets time pass, and what was due be done. */
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 25) {
      clock.advance(25);
      for (let turns = 0; turns < 20; turns++) await turn();
    }
  };
  /** Files are real, so what they take is not known. */
  const passUntil = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await pass(25);
  };
  const client = result.parts[Symbol.asyncIterator]();
  return { result, reader, wanted, pass, passUntil, client };
}

async function readAll(client: AsyncIterator<Uint8Array>): Promise<Buffer> {
  const read: Buffer[] = [];
  for (let next = await client.next(); next.done !== true; next = await client.next())
    read.push(Buffer.from(next.value));
  return Buffer.concat(read);
}

const expected = (parts: number): Buffer =>
  Buffer.concat([...Array.from({ length: parts }, (_, part) => Buffer.alloc(partBytes, part)), Buffer.from('end')]);

test('a reader waits for its client as long as no one waits for the reader (P7)', async (t) => {
  const { reader, pass, client } = relayed(t, 3, { wantedBy: 'nobody' });
  await pass(60_000);
  assert.equal(reader.sent, 0);
  assert.deepEqual(await readAll(client), expected(3));
});

test('a reader that others wait for gives its result away, and the client gets all of it in order (P10)', async (t) => {
  const { reader, wanted, pass, passUntil, client } = relayed(t, 200, { wantedBy: 'nobody' });
  assert.deepEqual((await client.next()).value, Buffer.alloc(partBytes, 0));
  await pass(1_000);
  wanted.by = 'others';
  await passUntil(() => reader.isFree);
  assert.deepEqual(Buffer.concat([Buffer.alloc(partBytes, 0), await readAll(client)]), expected(200));
});

test('a client that takes a part now and then gets all of it, while others come and go', async (t) => {
  const { wanted, pass, client } = relayed(t, 60);
  const read: Buffer[] = [];
  for (let next = await client.next(), round = 0; next.done !== true; next = await client.next(), round++) {
    read.push(Buffer.from(next.value));
    wanted.by = round % 3 === 0 ? 'nobody' : 'others';
    await pass(50);
  }
  assert.deepEqual(Buffer.concat(read), expected(60));
});

test('a result that is too long to be spooled is given up where its client lets others wait (P10)', async (t) => {
  const { result, reader, pass, passUntil, client } = relayed(t, 200, { mostBytes: 20 * partBytes });
  await passUntil(() => reader.sent === 20);
  await pass(1_000);
  assert.deepEqual([reader.sent, result.signal.aborted], [20, false]);
  await passUntil(() => result.signal.aborted);
  await passUntil(() => reader.isFree);
  await assert.rejects(readAll(client), { kind: 'TimedOut', message: /while others wait/ });
});

test('a client that takes a long result as fast as it comes keeps it, however many wait', async (t) => {
  const parts = 200;
  const { pass, client } = relayed(t, parts, { mostBytes: 20 * partBytes });
  const read: Buffer[] = [];
  await pass(500);
  for (let next = await client.next(); next.done !== true; next = await client.next()) {
    read.push(Buffer.from(next.value));
    await turn();
  }
  assert.deepEqual(Buffer.concat(read), expected(parts));
});
