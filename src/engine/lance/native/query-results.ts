import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { Projection } from '../../port/merge-spec.ts';
import type { NativeQuery } from './native.ts';
import { engineCall } from './translate-errors.ts';

/** The engine's default of 1,024 makes a file of every handful of rows; with a million the thread is held for long. */
const maxBatchRows = 2 ** 16;

/** As `Dataset.select` answers them. */
export async function* resultsOf(
  query: Omit<NativeQuery, 'onlyIf'>,
  columns: readonly Projection[],
): AsyncIterable<IpcFile> {
  query.select(columns.map(({ name, expression }) => [name, expression]));
  const batches = await engineCall('select', () => query.execute(maxBatchRows));
  let isEmpty = true;
  for (;;) {
    const batch = await engineCall('select', () => batches.next());
    if (batch === null) break;
    isEmpty = false;
    yield batch as IpcFile;
  }
  if (isEmpty) yield (await engineCall('select', () => query.outputSchema())) as IpcFile;
}
