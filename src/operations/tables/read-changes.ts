/** The rows that differ between two versions of a table (docs/design/changes.md). */
import Type from 'typebox';
import { type FieldPath, parseFieldPath, requireOnce } from '../../arrow/schema/field-path.ts';
import { answerParameters, readAnswerForm } from '../../endpoint/accept.ts';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { type Answer, headerText, tableTarget } from '../../endpoint/route.ts';
import type { History, RowsBetween, Snapshot } from '../../engine/port/dataset.ts';
import type { Tagged } from '../../engine/port/stored-tags.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Queries, QueryResult } from '../../query/protocol.ts';
import type { AnswerForm } from '../../rows/answer-form.ts';
import { type CommitWaits, consumerTag } from '../../table/consumers.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { Version } from '../../wire/json-body.ts';
import { parseDurationMs } from '../../wire/query-parameters.ts';
import { otherAnswers, QueriedRows } from './query-table.ts';

interface Deps {
  readonly access: TableAccess;
  readonly queries: Queries;
  readonly waits: CommitWaits;
}

interface ChangesCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  /** A version, or the name of a consumer. */
  readonly after: number | string;
  readonly until: number | undefined;
  readonly columns: readonly string[] | undefined;
  /** Undefined is the primary key of the table. */
  readonly on: readonly FieldPath[] | undefined;
  readonly waitMs: number;
  readonly form: AnswerForm;
}

interface ReadChanges {
  readonly until: number;
  readonly result: QueryResult;
}

/** The most versions that one answer covers, since it reads the manifest of each. The next answer goes on from there. */
const mostVersions = 1_024;
/** Four bytes for each go to the reader, of fragments that changed in part. */
const mostListedRows = 16 * 2 ** 20;
/** An answer of no change leaves before the deadline. */
const marginMs = 1_000;

const readChanges =
  ({ access, queries, waits }: Deps) =>
  async ({ table, branch, waitMs, form, ...asked }: ChangesCommand, scope: RequestScope): Promise<ReadChanges> => {
    const record = await access.findCreated(table);
    const latest = () => access.latest(record, branch);
    const after = await afterOf(asked.after, branch, await latest());
    const forMs = Math.min(waitMs, (scope.remainingMs() ?? Number.POSITIVE_INFINITY) - marginMs);
    // Where the newest version is an older one, the answer is 410 at once.
    const isThere = async (): Promise<boolean> => (await (await latest()).version()) !== after;
    if (asked.until === undefined || asked.until > after) await waits.wait(forMs, scope, isThere);
    scope.signal.throwIfAborted();
    return access.readFilesOf(record, async () => {
      const dataset = await latest();
      const until = await untilOf(dataset, after, asked.until);
      const rows = after === until ? noRows : await rowsOf(dataset, after, until);
      const { location } = record;
      const { columns, on } = asked;
      const result = await queries.changes({ location, branch, after, until, rows, on, columns }, form, scope);
      return { until, result };
    });
  };

const noRows: RowsBetween = { removed: [], added: [] };

/** What a consumer has acknowledged, or the version that was named. */
async function afterOf(after: number | string, branch: BranchName | undefined, { tags }: Tagged): Promise<number> {
  if (typeof after === 'number') return after;
  const wanted = consumerTag(after);
  const tag = (await tags.list()).find(({ name }) => name === wanted);
  if (tag?.branch === branch && tag !== undefined) return tag.version;
  throw new LancegateError(
    'ChangesGone',
    `consumer '${after}' keeps no version of the branch, or its time has passed: read the table at a version, acknowledge that, and go on from there`,
  );
}

async function untilOf(dataset: Snapshot & History, after: number, wanted: number | undefined): Promise<number> {
  const newest = await dataset.version();
  if (after > newest) throw gone(after, `the newest version is ${newest}: the table went back, or is another one`);
  if (wanted !== undefined && wanted < after) throw invalidInput('until: it is before after');
  if (wanted !== undefined && wanted > newest)
    throw new LancegateError('TableVersionNotFound', `until: the newest version is ${newest}`);
  const until = wanted ?? newest;
  if (after > 0 && !(await dataset.isWhole(after))) throw gone(after, await oldestOf(dataset));
  if (after > 0 && until - after > mostVersions) {
    const [first] = await dataset.versionPage({ after: after + mostVersions - 1, limit: 1, order: 'ascending' });
    return Math.min(until, first?.version ?? until);
  }
  if (!(await dataset.isWhole(until))) throw gone(until, await oldestOf(dataset));
  return until;
}

async function oldestOf(dataset: History): Promise<string> {
  const [oldest] = await dataset.versionPage({ after: undefined, limit: 1, order: 'ascending' });
  return `the oldest version that changes can be read after is ${oldest?.version ?? 'none'}`;
}

const gone = (version: number, why: string): LancegateError =>
  new LancegateError('ChangesGone', `version ${version} is not there any more; ${why}`);

async function rowsOf(dataset: History, after: number, until: number): Promise<RowsBetween> {
  const rows = await dataset.rowsBetween(after, until);
  if (rows === undefined) throw gone(after, await oldestOf(dataset));
  const listed = [...rows.removed, ...rows.added].reduce((sum, { offsets }) => sum + (offsets?.length ?? 0), 0);
  if (listed <= mostListedRows) return rows;
  throw new LancegateError(
    'ChangesGone',
    `${listed} rows of fragments that are left changed between versions ${after} and ${until}, more than ${mostListedRows}: read the whole table at a version, and go on from there`,
  );
}

const ChangesBody = Type.Object({
  after: Type.Optional(Version),
  consumer: Type.Optional(Type.String()),
  until: Type.Optional(Version),
  columns: Type.Optional(Type.Array(Type.String(), { maxItems: 10_000 })),
  on: Type.Optional(Type.Array(Type.String(), { maxItems: 64 })),
});

const mostWaitMs = 60_000;

function parseWait(text = ''): number {
  const waitMs = parseDurationMs(text, 'wait');
  if (waitMs > mostWaitMs) throw invalidInput(`wait: at most ${mostWaitMs / 1_000}s`);
  return waitMs;
}

export const readChangesRoute = jsonRoute(readChanges, {
  path: '/v1/table/:id/changes',
  target: tableTarget,
  action: 'QueryTable',
  operationId: 'ReadTableChanges',
  summary: 'Reads the rows that differ between two versions, and what was done to each',
  query: {
    ...answerParameters,
    wait: Type.Optional(
      Type.String({ description: 'How long to wait for a commit where there is none, such as 30s.' }),
    ),
  },
  answers: QueriedRows,
  otherAnswers,
  body: ChangesBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, { scope, context, headers, query }): Promise<Answer> => {
    const { after = body.consumer, until, columns } = body;
    if (after === undefined || (body.after !== undefined && body.consumer !== undefined))
      throw invalidInput('after: give a version, 0 for all rows, or the name of a consumer');
    const on = body.on?.map((path) => parseFieldPath(path));
    requireOnce(on ?? [], 'on');
    const { form, contentType } = readAnswerForm(
      { accept: headerText(headers.accept), userAgent: headers['user-agent'] },
      query,
    );
    const waitMs = query.one('wait', parseWait) ?? 0;
    const { until: reached, result } = await operation(
      { table, branch, after, until, columns, on, waitMs, form },
      scope,
    );
    context.setHeader('x-lancegate-version', String(reached));
    const audit = () => ({ version: reached, readRows: result.facts()?.rows });
    return { contentType, bytes: result.whole ?? result.parts, audit };
  },
  render: (answer) => answer,
});
