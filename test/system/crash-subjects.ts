import type { Subject } from './crash-sequence.ts';
import { columns, metadata } from './crash-subjects-of-columns.ts';
import { indexSubjects } from './crash-subjects-of-indexes.ts';
import { branches, overwrite, restore, rows, tags, versions } from './crash-subjects-of-rows.ts';
import { namespaces, tables } from './crash-subjects-of-tables.ts';

/** Everything that writes. `tablesFolder`: the storage root. */
export const allSubjects = (tablesFolder: string) =>
  [
    ...[rows, overwrite, restore, tags, versions, branches, columns, metadata],
    ...[tables(tablesFolder), namespaces(tablesFolder)],
    ...indexSubjects,
  ] as unknown as readonly Subject<unknown>[];
