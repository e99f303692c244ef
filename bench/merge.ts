import { join } from 'node:path';
import { createBare } from './bare-engine.ts';
import { median, type Row, timeMs } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

interface MergeCase {
  readonly name: string;
  readonly targetRows: number;
  readonly sourceRows: number;
  readonly floatsPerRow: number;
  readonly repeats: number;
  readonly goal: string;
  /** The peer's table gets an index on its key, before the first merge. lancegate's gets one by itself after the second. */
  readonly isPeerIndexed: boolean;
}

/**
 * One client, one merge after the other, half of its keys new: turn about with the bare engine doing the same to a table
 * of its own, so that both grow alike and share the noise of the machine. The peer is timed twice: as it is, and with
 * what it leaves out, since an acknowledgement of lancegate's is on disk.
 */
export async function compareMerges(service: ServiceProcess, folder: string, given: MergeCase): Promise<Row[]> {
  const { floatsPerRow, targetRows, sourceRows } = given;
  const first = bodyOf(vectorTable({ keys: range(0, targetRows), floatsPerRow }));
  const table = `merge_${targetRows}_${sourceRows}`;
  await service.post(`/v1/table/${table}/create`, first.stream);
  const bare = await createBare(join(folder, 'bare'), table, first.file);
  if (given.isPeerIndexed) await bare.buildIndex();
  const ours: number[] = [];
  const theirs: number[] = [];
  const theirsSynced: number[] = [];
  for (let turn = 0; turn < given.repeats; turn++) {
    const keys = range(targetRows + (turn - 1) * Math.ceil(sourceRows / 2), sourceRows);
    const body = bodyOf(vectorTable({ keys, floatsPerRow }, turn));
    const post = () => service.post(`/v1/table/${table}/merge_insert?on=id`, body.stream);
    const peer = async () => {
      const upsertMs = await timeMs(() => bare.upsert(body.file));
      theirs.push(upsertMs);
      theirsSynced.push(upsertMs + (await timeMs(() => bare.sync())));
    };
    if (turn % 2 === 1) await peer();
    ours.push(await timeMs(post));
    if (turn % 2 === 0) await peer();
  }
  return [
    rowOf(given, median(ours), median(theirs)),
    rowOf({ ...given, name: '- peer: then synced, as lancegate does' }, median(ours), median(theirsSynced)),
  ];
}

function rowOf({ name, sourceRows, goal }: MergeCase, oursMs: number, theirsMs: number): Row {
  const shown = (ms: number) =>
    `${ms.toFixed(1)} ms, ${Math.round((sourceRows / ms) * 1000).toLocaleString('en')} rows/s`;
  return {
    what: name,
    lancegate: shown(oursMs),
    bareEngine: shown(theirsMs),
    ratio: `${(oursMs / theirsMs).toFixed(2)}x latency`,
    goal,
  };
}
