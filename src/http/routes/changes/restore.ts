import Type from 'typebox';
import { restoreTable } from '../../../operations/tables/restore-table.ts';
import { Version } from '../../../wire/json-body.ts';
import { jsonRoute, Written, writeAnswer } from '../../json-route.ts';
import { tableTarget } from '../../route.ts';

const RestoreBody = Type.Object({ version: Version });

export const restoreTableRoute = jsonRoute(restoreTable, {
  methods: ['POST'],
  path: '/v1/table/:id/restore',
  target: tableTarget,
  action: 'RestoreTable',
  summary: 'Makes an older version the newest',
  answers: Written,
  body: RestoreBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body: { version }, idempotency }, input) =>
    writeAnswer(input, await operation({ table, branch, version, idempotency }, input.scope), {}),
});
