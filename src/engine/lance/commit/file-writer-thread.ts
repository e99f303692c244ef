/** The thread of `FileWriter`. */
import { parentPort } from 'node:worker_threads';
import { codeOf } from '../../../kernel/errors.ts';
import type { WriteOrder, WriteOutcome } from './file-writer.ts';
import { writeFiles } from './version-commit.ts';

function outcomeOf({ id, files }: WriteOrder): WriteOutcome {
  try {
    writeFiles(files);
    return { id, failure: undefined };
  } catch (error) {
    return { id, failure: { code: codeOf(error), message: error instanceof Error ? error.message : String(error) } };
  }
}

parentPort?.on('message', (order: WriteOrder) => parentPort?.postMessage(outcomeOf(order)));
