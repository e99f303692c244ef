import Type from 'typebox';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Queries } from '../../query/protocol.ts';
import { isNothing, type ReadTarget } from '../../table/table-access.ts';
import { withEitherQuotes } from '../../wire/either-quotes.ts';
import { Count, Version } from '../../wire/json-body.ts';
import type { Deps } from './describe-table.ts';
import { askReader } from './query-table.ts';

interface CountRowsCommand extends ReadTarget {
  readonly predicate: CheckedSql | undefined;
}

/** The manifest has the count of all rows; a predicate runs in a reader (P12). */
export const countRows =
  ({ access, queries }: Deps & { readonly queries: Queries }) =>
  async ({ predicate, ...target }: CountRowsCommand, scope: RequestScope): Promise<number> => {
    const record = await access.find(target.table);
    if (isNothing(record, target)) return 0;
    if (predicate !== undefined) {
      return askReader(access, record, target, (at) => queries.count(at, predicate, scope));
    }
    return access.read(record, target.branch, target.version, (dataset) => dataset.countRows());
  };

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
