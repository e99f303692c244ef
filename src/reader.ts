/**
 * The composition root of a reader: a process of the service that runs what clients wrote in SQL, so that it can die, or be
 * ended, without a writer noticing (P12, docs/adr/0018). The service begins it and gives it one end of a channel; with the
 * channel it ends, also when the service was killed.
 */

import { readdirSync, writeFileSync, writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { join } from 'node:path';

/** Where the service put it, after the three that every process has. */
const channelFd = 3;
/** Of the range from -1000 to 1000 (proc_pid_oom_score_adj(5)): the kernel ends readers before the service. */
const outOfMemoryScore = '500';
/** Where processors are short, writers go first (P10). */
const niceness = 5;

/** SIGKILL, since an orderly exit waits for threads of the engine that may compute for minutes. */
function endAtOnce(lastWords: Buffer): never {
  try {
    writeSync(channelFd, lastWords);
  } catch {
    // The service is gone, or does not listen: it sees that this process ended.
  }
  process.kill(process.pid, 'SIGKILL');
  throw new Error('killed');
}

/**
 * Neither is needed for anything but to be first to go, and last to be served. A priority is a thread's own (setpriority(2)), and
 * the threads of the engine, which are there by now, give theirs to those they make. This thread, which looks at the memory and
 * answers, keeps its own.
 */
function stepBack(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', outOfMemoryScore);
    for (const thread of readdirSync('/proc/self/task').map(Number)) {
      if (thread !== process.pid) setPriority(thread, niceness);
    }
  } catch {
    // Not Linux, or not allowed here.
  }
}

// In whatever way it fails: an orderly exit may wait, see above. The service has the end of this in its log.
process.on('uncaughtException', (error) => {
  console.error(error);
  endAtOnce(Buffer.alloc(0));
});
// The terminal sends it to every process; the service says when readers end.
process.on('SIGINT', () => undefined);
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/node'));

const { LanceEngine } = await import('./engine/lance/lance-engine.ts');
const { answerOrders } = await import('./query/answer-orders.ts');

// Only now: a query waits for the start.
stepBack();

await answerOrders({
  channel: new Socket({ fd: channelFd }),
  openEngines: ({ root, scratchFolder, ...options }) => {
    const engineAt = (place: string) => new LanceEngine({ ...options, root: place, scratchFolder });
    return { root: engineAt(root), scratch: engineAt(scratchFolder) };
  },
  residentBytes: () => process.memoryUsage.rss(),
  endAtOnce,
});
endAtOnce(Buffer.alloc(0));
