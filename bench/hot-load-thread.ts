/** The clients of one busy table, on a thread of their own: who measures others must not wait for them, too. */
import { parentPort, workerData } from 'node:worker_threads';
import { runClosedLoop } from './closed-loop.ts';
import type { HotTable } from './hot-load.ts';
import { KeyFeed } from './key-feed.ts';
import { httpUpserters } from './upserters.ts';
import { range } from './workloads.ts';

const { target, table, size } = workerData as HotTable;
const upserters = httpUpserters(target, table, size);
for (const client of range(0, size.clients)) await upserters.connect(client);
const feed = new KeyFeed(size.targetRows, size.rowsPerRequest);

const request = (client: number) => upserters.upsert(client, feed.next());
parentPort?.on('message', (durationMs: number) => {
  // An error of a client ends the thread, and so reaches the caller that waits for the outcome.
  void runClosedLoop({ clients: size.clients, durationMs, request }).then((outcome) =>
    parentPort?.postMessage(outcome),
  );
});
