/** The thread of `conversions.ts`: reads the rows of several bodies, piece by piece. */
import { parentPort } from 'node:worker_threads';
import { LancegateError } from '../../kernel/errors.ts';
import type { Converted, ToConvert } from './conversions.ts';
import { RowConversion } from './row-conversion.ts';

const conversions = new Map<number, RowConversion>();

async function convert(asked: ToConvert): Promise<readonly Uint8Array[]> {
  const { body, kind } = asked;
  const conversion = conversions.get(body);
  switch (kind) {
    case 'begin':
      conversions.set(body, new RowConversion(asked));
      return [];
    case 'add':
      return conversion?.add(asked.bytes) ?? [];
    case 'end':
      return conversion?.end() ?? [];
    case 'leave':
      conversions.delete(body);
      return [];
  }
}

async function answer(asked: ToConvert): Promise<Converted> {
  const { body, kind } = asked;
  try {
    return { body, kind, parts: await convert(asked) };
  } catch (error) {
    if (error instanceof LancegateError) return { body, kind, fault: { kind: error.kind, message: error.message } };
    // A defect is one body's: the thread goes on for the others.
    return { body, kind, fault: { kind: 'Internal', message: 'the rows cannot be converted', cause: error } };
  }
}

parentPort?.on('message', (asked: ToConvert) => {
  void answer(asked).then((converted) => parentPort?.postMessage(converted));
});
