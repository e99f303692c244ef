/**
 * The composition root of a reader: a process of the service in which the engine computes what clients want (queries, the steps of
 * writes) and what takes long (indexes, compactions), so that it can die, or be killed, without another client noticing (P12). The
 * service starts it with one end of a channel; when that ends, also because the service was killed, it kills itself.
 */
import { readdirSync, writeFileSync, writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { join } from 'node:path';

/** After the three descriptors that every process has. */
const channelFd = 3;

/** SIGKILL, since an orderly exit waits for threads of the engine that may compute for minutes. */
function endAtOnce(lastWords: Buffer): never {
  try {
    writeSync(channelFd, lastWords);
  } catch {
    // The service has ended or does not read; it sees the end of this process.
  }
  process.kill(process.pid, 'SIGKILL');
  throw new Error('killed');
}

/**
 * Optional: the kernel then kills this process before the service, and schedules it after the service (P10). A priority belongs to one
 * thread (setpriority(2)); the engine's threads, which exist by now, pass theirs on to threads that they create. The main
 * thread, which checks the memory and answers, keeps its own.
 */
function yieldToService(niceness: number): void {
  try {
    // Of the range from -1000 to 1000 (proc_pid_oom_score_adj(5)).
    writeFileSync('/proc/self/oom_score_adj', '500');
    for (const thread of readdirSync('/proc/self/task').map(Number)) {
      if (thread !== process.pid) setPriority(thread, niceness);
    }
  } catch {
    // Not Linux, or not permitted.
  }
}

// An orderly exit may wait, see above. The service logs the end of this text.
process.on('uncaughtException', (error) => {
  console.error(error);
  endAtOnce(Buffer.alloc(0));
});
// A terminal sends it to every process; the service decides when readers end.
process.on('SIGINT', () => undefined);
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/node'));

const { LanceEngine } = await import('./engine/lance/adapter/lance-engine.ts');
const { mirrorsFolder } = await import('./engine/lance/store/branch-mirrors.ts');
const { hasScheme } = await import('./engine/lance/adapter/storage-root.ts');
const { answerOrders } = await import('./query/answer-orders.ts');

await answerOrders({
  channel: new Socket({ fd: channelFd }),
  openEngines: ({ root, scratchFolder, niceness, ...options }) => {
    yieldToService(niceness);
    const engineAt = (folder: string) => new LanceEngine({ ...options, root: folder, scratchFolder });
    const tables = engineAt(root);
    const shadow = hasScheme(root) ? engineAt(mirrorsFolder(scratchFolder)) : tables;
    return { root: tables, shadow, scratch: engineAt(scratchFolder) };
  },
  residentBytes: () => process.memoryUsage.rss(),
  endAtOnce,
});
endAtOnce(Buffer.alloc(0));
