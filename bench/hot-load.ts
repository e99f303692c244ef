import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Outcome } from './closed-loop.ts';
import type { ClientCount, Target } from './upserters.ts';

export interface HotTable {
  readonly target: Target;
  readonly table: string;
  readonly size: ClientCount & { readonly targetRows: number };
}

interface HotLoad {
  /** All clients at full load, for so long. */
  run(durationMs: number): Promise<Outcome>;
  stop(): Promise<void>;
}

/** Connections are kept from one run to the next. An error of any client rejects. */
export function startHotLoad({ target: { port, token }, table, size }: HotTable): HotLoad {
  const workerData: HotTable = { target: { port, token }, table, size };
  const thread = new Worker(new URL('./hot-load-thread.ts', import.meta.url), { workerData });
  return {
    run: async (durationMs) => {
      const served = once(thread, 'message') as Promise<[Outcome]>; // rejects on 'error', too
      thread.postMessage(durationMs);
      return (await served)[0];
    },
    stop: async () => {
      await thread.terminate();
    },
  };
}
