import Type from 'typebox';
import { countRows } from '../../operations/tables/describe-table.ts';
import { Version } from '../../wire/json-body.ts';
import { jsonRoute } from '../json-route.ts';
import { tableTarget } from '../route.ts';

const CountBody = Type.Object({ version: Type.Optional(Version), predicate: Type.Optional(Type.String()) });

/** The answer is the bare number, which is what every client parses. The Lance REST client asks with GET. */
export const countRowsRoute = jsonRoute(countRows, {
  methods: ['GET', 'POST'],
  path: '/v1/table/:id/count_rows',
  target: tableTarget,
  action: 'CountTableRows',
  body: CountBody,
  branches: (_, branch) => [branch],
  answer: (operation, { target: table, branch, body: { version, predicate: text } }, { scope, readFilter }) => {
    const predicate = text === undefined ? undefined : readFilter(text, 'predicate');
    return operation({ table, branch, version, predicate }, scope);
  },
});
