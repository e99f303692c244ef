/** V8 really does what the limit on resident memory asks of it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';

const script = join(import.meta.dirname, '../fixtures/garbage-process.ts');

/** Megabytes. */
interface Seen {
  /** The heap at its largest, in the first half of the time. */
  readonly mostHeap: number;
  /** Of resident memory, from one line to the next. */
  readonly gaveBackAtOnce: number;
  /** Until resident memory was lowest, in the second half. */
  readonly gaveBack: number;
  /** The heap at its largest, when all that is done on one request must be over. */
  readonly mostHeapLast: number;
}

async function wasteOf(how: 'nothing' | 'as it begins' | 'thrifty' | 'soon' | 'now'): Promise<Seen> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--no-warnings', script, how]);
  return JSON.parse(stdout) as Seen;
}

describe('the memory of the process', () => {
  let untold: Seen;
  before(async () => {
    untold = await wasteOf('nothing');
  });

  test('keeps garbage if it has no flags; collected now, it is given back at once (P7)', async () => {
    const now = await wasteOf('now');
    assert.ok(untold.gaveBack < 60, JSON.stringify(untold));
    assert.ok(now.gaveBackAtOnce > 120, JSON.stringify(now));
  });

  test('is given back by the next collection of the whole heap, which is the only one of its kind (P7)', async () => {
    const soon = await wasteOf('soon');
    assert.ok(soon.gaveBackAtOnce < 60, JSON.stringify(soon));
    assert.ok(soon.gaveBack > 120, JSON.stringify(soon));
    assert.ok(soon.mostHeapLast > 0.7 * soon.mostHeap, JSON.stringify(soon));
  });

  test('has less garbage while it is thrifty (P7)', async () => {
    // Side by side: how much lies about depends on how soon V8's helpers get a processor.
    const [usual, thrifty] = await Promise.all([wasteOf('nothing'), wasteOf('thrifty')]);
    assert.ok(thrifty.mostHeapLast < 0.85 * usual.mostHeapLast, JSON.stringify({ usual, thrifty }));
  });

  test('is thrifty from the start, and no more once its collections follow one another (P7)', async () => {
    const [usual, begun] = await Promise.all([wasteOf('nothing'), wasteOf('as it begins')]);
    assert.ok(begun.mostHeapLast < 0.85 * usual.mostHeapLast, JSON.stringify({ usual, begun }));
  });
});
