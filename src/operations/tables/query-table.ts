/** The rows of a table that a client asks for, and the plan by which the engine finds them. Both run in a reader (P12). */
import type { TableRecord } from '../../catalog/port.ts';
import type { PlanForm, QuerySpec } from '../../engine/port/query-spec.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Queries, QueryResult, Reading } from '../../query/protocol.ts';
import type { AnswerForm } from '../../rows/answer-form.ts';
import type { TableAccess } from '../../table/table-access.ts';

interface Deps {
  readonly access: TableAccess;
  readonly queries: Queries;
}

/** What is read: a branch at a version, undefined for the newest. */
export interface ReadTarget {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly version: number | undefined;
}

interface QueryCommand extends ReadTarget {
  readonly spec: QuerySpec;
}

export const queryTable =
  ({ access, queries }: Deps) =>
  (
    { spec, form, ...target }: QueryCommand & { readonly form: AnswerForm },
    scope: RequestScope,
  ): Promise<QueryResult> =>
    readInReader(access, target, (reading) => queries.query(reading, spec, form, scope));

export const explainQuery =
  ({ access, queries }: Deps) =>
  ({ spec, form, ...target }: QueryCommand & { readonly form: PlanForm }, scope: RequestScope): Promise<string> =>
    readInReader(access, target, (reading) => queries.explain(reading, spec, form, scope));

export async function readInReader<Result>(
  access: TableAccess,
  { table, branch, version }: ReadTarget,
  read: (reading: Reading) => Promise<Result>,
): Promise<Result> {
  const record = await access.findCreated(table);
  return access.readFilesOf(record, async () => read(await readingOf(access, record, branch, version)));
}

/** The newest version is the one that the service knows or a newer one (P11). */
async function readingOf(
  access: TableAccess,
  record: TableRecord,
  branch: BranchName | undefined,
  version: number | undefined,
): Promise<Reading> {
  const { location } = record;
  if (version !== undefined) return { location, branch, version };
  const dataset = await access.latest(record, branch);
  return { location, branch, lineage: dataset.lineage, atLeastVersion: await dataset.version() };
}
