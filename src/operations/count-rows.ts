import type { Queries } from '../query/port.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { Operations } from './commands.ts';

/** The manifest has the count of all rows; a predicate runs in a reader (P12). */
export const countRows =
  (access: TableAccess, queries: Queries): Operations['countRows'] =>
  async ({ table, branch, version, predicate }, scope) => {
    const record = await access.findCreated(table);
    const { location } = record;
    if (predicate === undefined) return access.read(record, branch, version, (dataset) => dataset.countRows());
    return access.onFilesOf(record, async () => {
      if (version !== undefined) return queries.count({ location, branch, version }, predicate, scope);
      const dataset = await access.latest(record, branch);
      const { lineage } = dataset;
      const atLeastVersion = await dataset.version();
      return queries.count({ location, branch, lineage, atLeastVersion }, predicate, scope);
    });
  };
