/** A client asks for rows of a table, or for the plan by which the engine finds them. Both run in a reader (P12). */
import Type from 'typebox';
import type { TableRecord } from '../../catalog/port.ts';
import { declaredColumns } from '../../create/declared-columns.ts';
import { answerParameters, answerTypes, readAnswerForm } from '../../endpoint/accept.ts';
import { bytesOf } from '../../endpoint/description.ts';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { type Answer, headerText, tableTarget } from '../../endpoint/route.ts';
import type { PlanForm, QuerySpec } from '../../engine/port/query-spec.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { BranchName } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Queries, QueryResult, ReadAt } from '../../query/protocol.ts';
import { resultOfNothing } from '../../query/result-of-nothing.ts';
import { type AnswerForm, arrowFileType } from '../../rows/answer-form.ts';
import { isNothing, type ReadTarget, type TableAccess } from '../../table/table-access.ts';
import { withEitherQuotes } from '../../wire/either-quotes.ts';
import { parseBranch } from '../../wire/identifiers.ts';
import { Common, readFields } from '../../wire/json-body.ts';
import { checkNames } from '../../wire/known-names.ts';
import { QueryBody, readQuery } from '../../wire/query-body.ts';

interface Deps {
  readonly access: TableAccess;
  readonly queries: Queries;
}

interface QueryCommand extends ReadTarget {
  readonly spec: QuerySpec;
}

const queryTable =
  ({ access, queries }: Deps) =>
  async (
    { spec, form, ...target }: QueryCommand & { readonly form: AnswerForm },
    scope: RequestScope,
  ): Promise<QueryResult> => {
    const record = await access.find(target.table);
    if (isNothing(record, target)) return resultOfNothing(declaredColumns(record.properties).fields, spec, form);
    return askReader(access, record, target, (at) => queries.query(at, spec, form, scope));
  };

const explainQuery =
  ({ access, queries }: Deps) =>
  async ({ spec, form, ...target }: QueryCommand & { readonly form: PlanForm }, scope: RequestScope): Promise<string> =>
    askReader(access, await access.findCreated(target.table), target, (at) => queries.explain(at, spec, form, scope));

/** The newest version is the one that the service knows or a newer one (P11). */
export function askReader<Result>(
  access: TableAccess,
  record: TableRecord,
  { branch, version }: ReadTarget,
  ask: (at: ReadAt) => Promise<Result>,
): Promise<Result> {
  const at = { store: 'root', location: record.location, branch } as const;
  return access.readFilesOf(record, async () => {
    if (version !== undefined) return ask({ ...at, version });
    const dataset = await access.latest(record, branch);
    return ask({ ...at, version: await dataset.version(), lineage: dataset.lineage });
  });
}

/** Both families of clients read an Arrow IPC file. */
export const QueriedRows = bytesOf(arrowFileType);

export const otherAnswers = [
  Type.Object({
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
    rows: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  }),
  ...answerTypes.filter((type) => type !== arrowFileType && type !== 'application/json').map(bytesOf),
];

export const queryTableRoute = jsonRoute(queryTable, {
  path: '/v1/table/:id/query',
  target: tableTarget,
  action: 'QueryTable',
  summary: 'Reads rows: by condition, by vector, or by text',
  query: answerParameters,
  answers: QueriedRows,
  otherAnswers,
  body: QueryBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, input): Promise<Answer> => {
    const { version } = body;
    const { scope, readFilter, checkNames, headers, query } = input;
    const asked = { accept: headerText(headers.accept), userAgent: headers['user-agent'] };
    const { form, contentType } = readAnswerForm(asked, query);
    const result = await withEitherQuotes(readFilter, (read) =>
      operation({ table, branch, version, form, spec: readQuery(body, read, checkNames) }, scope),
    );
    const audit = () => {
      const facts = result.facts();
      return { version: facts?.version, readRows: facts?.rows };
    };
    return { contentType, bytes: result.whole ?? result.parts, audit };
  },
  render: (answer) => answer,
});

/** The SDKs put the branch into the query, the Lance REST clients beside it. */
const ExplainBody = Type.Object({ query: Type.Unknown(), verbose: Type.Optional(Type.Boolean()) });

export const explainQueryRoute = jsonRoute(explainQuery, {
  path: '/v1/table/:id/explain_plan',
  target: tableTarget,
  action: 'ExplainTableQueryPlan',
  summary: 'Shows how a query would be run',
  answers: Type.String(),
  body: ExplainBody,
  branches: ({ query }, branch) => [explainedBranch(query, branch)],
  answer: (
    operation,
    { target: table, branch, body: { query, verbose } },
    { scope, readFilter, checkNames: check },
  ) => {
    checkNames(ExplainedQuery, query, '', check);
    const fields = readFields(QueryBody, query, 'query');
    const spec = readQuery(fields, readFilter, check);
    const form = verbose === true ? 'verbose plan' : 'plan';
    return operation({ table, branch: explainedBranch(query, branch), version: fields.version, spec, form }, scope);
  },
});

function explainedBranch(query: unknown, beside: BranchName | undefined): BranchName | undefined {
  const inside = parseBranch(readFields(BranchField, query, 'query').branch);
  if (inside === undefined || beside === undefined || inside === beside) return inside ?? beside;
  throw invalidInput('branch: the query names another one');
}

const ExplainedQuery = Type.Object({ ...QueryBody.properties, ...Common.properties });

const BranchField = Type.Object({ branch: Type.Optional(Type.String()) });

export const analyzeQueryRoute = jsonRoute(explainQuery, {
  path: '/v1/table/:id/analyze_plan',
  target: tableTarget,
  action: 'AnalyzeTableQueryPlan',
  summary: 'Runs a query, and shows what each step of it took',
  answers: Type.String(),
  body: QueryBody,
  branches: (_, branch) => [branch],
  answer: (operation, { target: table, branch, body }, { scope, readFilter, checkNames }) =>
    operation(
      {
        table,
        branch,
        version: body.version,
        spec: readQuery(body, readFilter, checkNames),
        form: 'analysis' as const,
      },
      scope,
    ),
});
