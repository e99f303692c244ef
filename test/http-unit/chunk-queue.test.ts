import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { ChunkQueue } from '#src/http/body/request-body.ts';

class Raw extends EventEmitter {
  isPaused = false;

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }
}

async function chunksUntilPause(bytesEach: number): Promise<number> {
  const raw = new Raw();
  const queue = new ChunkQueue(raw as unknown as IncomingMessage);
  const first = queue.next();
  raw.emit('data', Buffer.alloc(bytesEach));
  await first;
  let chunks = 0;
  for (; !raw.isPaused; chunks++) raw.emit('data', Buffer.alloc(bytesEach));
  return chunks;
}

test('chunks of a byte are not let pile up by the hundred thousand: each is memory of its own (P7)', async () => {
  assert.ok((await chunksUntilPause(1)) < 1_000);
  assert.equal(await chunksUntilPause(64 * 1024), 4);
});
