/** The thread of `FileWriter`. */
import { parentPort } from 'node:worker_threads';
import type { WriteOrder, WriteOutcome } from './file-writer.ts';
import { writeFiles } from './version-commit.ts';

function outcomeOf({ id, files }: WriteOrder): WriteOutcome {
  try {
    writeFiles(files);
    return { id, failure: undefined };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { id, failure: { code, message } };
  }
}

parentPort?.on('message', (order: WriteOrder) => parentPort?.postMessage(outcomeOf(order)));
