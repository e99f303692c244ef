import Type from 'typebox';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import { jsonRoute, Written, writeAnswer } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { Version } from '../../wire/json-body.ts';

interface RestoreTableCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly version: number;
  readonly idempotency: IdempotencyHeader | undefined;
}

/**
 * Makes a new version of all that an older one of the branch has: rows, columns, indexes and settings. The newest can be restored
 * too, which makes a version as well, as the engine does. `TableVersionNotFound`.
 */
const restoreTable =
  ({ idempotency, ...deps }: ChangeDeps & { readonly idempotency: Idempotency }) =>
  (command: RestoreTableCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('restore', command, scope, async (keyed) => {
      const { branch, version } = command;
      const table = await deps.access.findCreated(command.table);
      const manifest = { kind: 'restore', version } as const;
      return submitChange(deps, { operation: 'restore', table, branch, manifest }, scope, keyed);
    });

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
