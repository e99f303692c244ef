/** V8 really does what the limit on resident memory asks of it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';

const script = join(import.meta.dirname, '../fixtures/garbage-process.ts');

/** Megabytes. */
interface Seen {
  /** Of resident memory, between two halves of the time. */
  readonly gaveBack: number;
  /** The heap at its largest, in the second half. */
  readonly mostHeapLast: number;
}

async function wasteOf(how: 'left alone' | 'growing little' | 'collected', ...flags: readonly string[]): Promise<Seen> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--no-warnings', ...flags, script, how]);
  return JSON.parse(stdout) as Seen;
}

describe('the memory of the process', () => {
  let alone: Promise<Seen>;
  let little: Promise<Seen>;
  before(() => {
    // Side by side: how much garbage there is depends on how soon V8's helpers get a processor.
    alone = wasteOf('left alone');
    little = wasteOf('growing little');
  });

  test('keeps garbage; collected on demand, it is given back at once (P7)', async () => {
    assert.ok((await alone).gaveBack < 60, JSON.stringify(await alone));
    const collected = await wasteOf('collected', '--expose-gc');
    assert.ok(collected.gaveBack > 120, JSON.stringify(collected));
  });

  test('has a small heap from its start on, and no more once collections are frequent (P7)', async () => {
    const seen = { alone: await alone, little: await little };
    assert.ok(seen.little.mostHeapLast < 0.85 * seen.alone.mostHeapLast, JSON.stringify(seen));
  });
});
