/** What every catalog must do, whatever database it stands on. `open` gives an empty one; the suite closes it. */
import { describe } from 'node:test';
import type { Catalog } from '#src/catalog/port.ts';
import { concurrencyContract } from './catalog/concurrency.ts';
import { createsContract } from './catalog/creates.ts';
import { idempotencyContract } from './catalog/idempotency.ts';
import { locationsContract } from './catalog/locations.ts';
import { namespacesContract } from './catalog/namespaces.ts';
import { openBranchesContract } from './catalog/open-branches.ts';
import { renamesContract } from './catalog/renames.ts';
import { tablesContract } from './catalog/tables.ts';
import { transactionsContract } from './catalog/transactions.ts';
import { trashContract } from './catalog/trash.ts';

export function catalogContract(name: string, open: () => Promise<Catalog>): void {
  describe(`${name}, as a catalog,`, () => {
    namespacesContract(open);
    renamesContract(open);
    tablesContract(open);
    trashContract(open);
    locationsContract(open);
    createsContract(open);
    transactionsContract(open);
    idempotencyContract(open);
    openBranchesContract(open);
    concurrencyContract(open);
  });
}
