import Type from 'typebox';
import { invalidInput } from '../../kernel/errors.ts';
import type { BranchName } from '../../kernel/ids.ts';
import { countRows } from '../../operations/tables/describe-table.ts';
import { explainQuery, queryTable } from '../../operations/tables/query-table.ts';
import { arrowFileType } from '../../rows/answer-form.ts';
import { withEitherQuotes } from '../../wire/either-quotes.ts';
import { parseBranch } from '../../wire/identifiers.ts';
import { Common, Count, readFields, Version } from '../../wire/json-body.ts';
import { checkNames } from '../../wire/known-names.ts';
import { QueryBody, readQuery } from '../../wire/query-body.ts';
import { answerParameters, answerTypes, readAnswerForm } from '../accept.ts';
import { jsonRoute } from '../json-route.ts';
import { bytesOf } from '../openapi/description.ts';
import { headerText } from '../request-head.ts';
import { type Answer, tableTarget } from '../route.ts';

const CountBody = Type.Object({ version: Type.Optional(Version), predicate: Type.Optional(Type.String()) });

/** The answer is the bare number, which is what every client parses. The Lance REST client asks with GET. */
export const countRowsRoute = jsonRoute(countRows, {
  methods: ['GET', 'POST'],
  path: '/v1/table/:id/count_rows',
  target: tableTarget,
  action: 'CountTableRows',
  summary: 'Counts rows',
  answers: Count,
  body: CountBody,
  branches: (_, branch) => [branch],
  answer: (operation, { target: table, branch, body: { version, predicate: text } }, { scope, readFilter }) => {
    return withEitherQuotes(readFilter, (read) => {
      const predicate = text === undefined ? undefined : read(text, 'predicate');
      return operation({ table, branch, version, predicate }, scope);
    });
  },
});

/** Both families of clients read an Arrow IPC file. */
const QueriedRows = bytesOf(arrowFileType);

const otherAnswers = [
  Type.Object({
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
    rows: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  }),
  ...answerTypes.filter((type) => type !== arrowFileType && type !== 'application/json').map(bytesOf),
];

export const queryTableRoute = jsonRoute(queryTable, {
  methods: ['POST'],
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
  methods: ['POST'],
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
  methods: ['POST'],
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
