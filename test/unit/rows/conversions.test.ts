/** Bodies of text share one thread, and what one of them does is felt by no other (P1, P10, P12). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
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
    await inTime(Array.fromAsync(conversions.open('ndjson').convert(body())), 4_000);
  });
});
