/** The same file makes the same parts and keys, so that a load that broke goes on without doubling. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { PartKeys, partsOf, type RowsPart } from '#src/load/parts.ts';
import { messagesOfText } from '#src/load/row-messages.ts';
import { RowConversion } from '#src/rows/bodies/row-conversion.ts';

const lines = Array.from({ length: 60_000 }, (_, at) => `{"id":${at},"name":"name ${at % 7}"}\n`).join('');

async function* inPieces(text: string, bytes: number): AsyncGenerator<Uint8Array> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += bytes) yield all.subarray(at, at + bytes);
}

async function partsFor(text: string, mostBytes: number): Promise<readonly RowsPart[]> {
  const messages = messagesOfText(inPieces(text, 65_536), new RowConversion({ format: 'ndjson' }));
  return Array.fromAsync(partsOf(messages, mostBytes));
}

test('parts are whole Arrow streams that have every row once, in order', async () => {
  const parts = await partsFor(lines, 100_000);
  assert.ok(parts.length > 2);
  let next = 0;
  for (const { body, rows, rowsBefore } of parts) {
    const ids = [...tableFromIPC(body)].map((row) => Number(row!.id));
    assert.deepEqual([ids.length, ids[0], rowsBefore], [rows, next, next]);
    next += rows;
  }
  assert.equal(next, 60_000);
});

test('a second run makes the same bytes and keys', async () => {
  const keysOf = async (): Promise<readonly string[]> => {
    const keys = new PartKeys(['people', 'append', undefined]);
    return (await partsFor(lines, 100_000)).map((part) => keys.next(part));
  };
  const [first, second] = [await keysOf(), await keysOf()];
  assert.deepEqual(first, second);
  assert.equal(new Set(first).size, first.length);
});

test('equal parts have keys of their own, and so have other tables, ways to load and labels', () => {
  const part = { body: Buffer.from('the same') };
  const keys = new PartKeys(['people', 'append', undefined]);
  const others = [
    ['people', 'upsert', 'id', undefined],
    ['folk', 'append', undefined],
    ['people', 'append', 'again'],
  ];
  const made = [keys.next(part), keys.next(part), ...others.map((what) => new PartKeys(what).next(part))];
  assert.equal(new Set(made).size, made.length);
  for (const key of made) assert.match(key, /^load-[\w-]{43}$/);
});

test('no rows are no part', async () => {
  assert.deepEqual(await Array.fromAsync(partsOf(none())), []);
});

async function* none(): AsyncGenerator<never> {}
