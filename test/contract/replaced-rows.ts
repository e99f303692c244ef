import { describe } from 'node:test';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { branchesAreWrittenTo } from './replaced-rows/branches.ts';
import { failuresLeaveNothing } from './replaced-rows/failures.ts';
import { othersGoOn } from './replaced-rows/others-go-on.ts';
import { othersCommitBetween } from './replaced-rows/overtaken.ts';
import { rowsThatFitAreTaken } from './replaced-rows/refusals.ts';
import { rowsAreReplaced } from './replaced-rows/rounds.ts';
import { valuesAreStored } from './replaced-rows/values.ts';

/** What the engine encodes, and what only a folder has, is asked on a folder alone. */
export function replacedRowsContract(storage: TableStorage): void {
  describe(`rows replaced by their addresses, on ${storage.kind}`, () => {
    rowsAreReplaced(storage);
    othersGoOn(storage);
    othersCommitBetween(storage);
    rowsThatFitAreTaken(storage);
    if (storage.kind === 'an object store') return;
    branchesAreWrittenTo(storage);
    valuesAreStored(storage);
    failuresLeaveNothing(storage);
  });
}
