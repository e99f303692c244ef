/** Bodies of text share one thread, and what one of them does is felt by no other (P1, P10, P12). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { LancegateError } from '#src/kernel/errors.ts';
import { Conversions } from '#src/rows/bodies/conversions.ts';
import { inTime } from './in-time.ts';

const text = (of: string): Uint8Array => Uint8Array.from(Buffer.from(of));
const manyRows = text('{"id":1}\n'.repeat(200_000));

describe('conversions', () => {
  it('refuse a body whose thread ended, rather than end it before its last rows (P1)', async () => {
    const conversions = new Conversions();
    async function* body() {
      yield manyRows;
      await conversions[Symbol.asyncDispose]();
      yield manyRows;
    }
    await using _ = conversions;
    await assert.rejects(
      Array.fromAsync(conversions.open('ndjson').convert(body())),
      (error) => error instanceof LancegateError && error.kind === 'SlowDown',
    );
  });

  it('take a body whose bytes come one by one without work for each (P10)', async () => {
    await using conversions = new Conversions();
    const row = text(`{"a":"${'k'.repeat(300_000)}"}\n`);
    async function* body() {
      for (const byte of row) yield Uint8Array.of(byte);
    }
    await inTime(Array.fromAsync(conversions.open('ndjson').convert(body())), 15_000);
  });

  it('make no more of a few bytes than is asked for (P7)', async () => {
    await using conversions = new Conversions();
    const head = `{${Array.from({ length: 5_000 }, (_, i) => `"a${i}":1`).join()}}\n`;
    const conversion = conversions.open('ndjson');
    async function* body() {
      yield text(head + '{}\n'.repeat(40_000));
    }
    const before = process.memoryUsage.rss();
    let bytes = 0;
    for await (const part of conversion.convert(body())) {
      bytes += part.length;
      if (bytes > 32 << 20) break;
    }
    conversion.close();
    const taken = process.memoryUsage.rss() - before;
    assert.ok(bytes > 32 << 20 && taken < 1_000 << 20, `${taken} bytes`);
  });

  it('of few bytes that become much let others go on meanwhile (P10)', async () => {
    await using conversions = new Conversions();
    const conversion = conversions.open('ndjson');
    async function* body() {
      yield text(`{"v":[${'0,'.repeat(1_535)}0]}\n${'{}\n'.repeat(9_000)}`);
    }
    let isOver = false;
    let turns = 0;
    const others = (async () => {
      for (; !isOver; turns++) await setImmediate();
    })();
    await Array.fromAsync(conversion.convert(body()));
    isOver = true;
    await others;
    assert.ok(turns > 10, `${turns} turns`);
  });
});
