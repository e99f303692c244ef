/** The thread of `conversions.ts` reads the rows of several bodies, piece by piece. */
import { parentPort } from 'node:worker_threads';
import { LancegateError } from '../../kernel/errors.ts';
import { InvalidRows } from '../../kernel/invalid-rows.ts';
import type { Converted, ConvertedParts, ToConvert } from './conversions.ts';
import { RowConversion } from './row-conversion.ts';

interface BodyInThread {
  readonly conversion: RowConversion;
  /** undefined where no row is left out. */
  readonly invalid: InvalidRows | undefined;
  /** What the last message gives. */
  readonly parts: AsyncIterator<Uint8Array>;
}

const bodies = new Map<number, BodyInThread>();

function partsOf(asked: ToConvert, { conversion, parts }: BodyInThread): AsyncIterator<Uint8Array> {
  if (asked.kind === 'add') return conversion.add(asked.bytes);
  return asked.kind === 'end' ? conversion.end() : parts;
}

async function convert(asked: ToConvert): Promise<ConvertedParts> {
  const none = { parts: [], isMore: false };
  if (asked.kind === 'begin') {
    const invalid = asked.leavesOut ? new InvalidRows() : undefined;
    const leftOut = invalid && ((reason: string, row: number) => invalid.add(row, reason));
    const { format, table, isExtending } = asked;
    const conversion = new RowConversion({ format, table, isExtending, leftOut });
    bodies.set(asked.body, { conversion, invalid, parts: conversion.add(new Uint8Array(0)) });
    return none;
  }
  const body = bodies.get(asked.body);
  if (body === undefined) return none;
  const parts = partsOf(asked, body);
  bodies.set(asked.body, { ...body, parts });
  const ready: Uint8Array[] = [];
  // An answer has about a megabyte: a few bytes of text can become as many values as their table has columns.
  for (let bytes = 0; bytes < 1 << 20; ) {
    const next = await parts.next();
    if (next.done) return { parts: ready, isMore: false, invalid: body.invalid?.report() };
    ready.push(next.value);
    bytes += next.value.length;
  }
  return { parts: ready, isMore: true };
}

async function answer(asked: ToConvert): Promise<Converted> {
  const { body } = asked;
  try {
    return { body, ...(await convert(asked)) };
  } catch (error) {
    if (error instanceof LancegateError) return { body, fault: { kind: error.kind, message: error.message } };
    // A defect is one body's: the thread goes on for the others.
    return { body, fault: { kind: 'Internal', message: 'the rows cannot be converted', cause: error } };
  }
}

parentPort?.on('message', (asked: ToConvert) => {
  if (asked.kind === 'leave') bodies.delete(asked.body);
  else void answer(asked).then((converted) => parentPort?.postMessage(converted));
});
