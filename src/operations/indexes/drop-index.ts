import type { TableRecord } from '../../catalog/port.ts';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import { jsonRoute, Written, writeAnswer } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import { requireIndex } from '../../indexing/index-names.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { IndexNameBody, requireSameIndex } from './index-options.ts';

interface DropIndexCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly name: string;
  readonly idempotency: IdempotencyHeader | undefined;
}

interface DropIndexDeps extends ChangeDeps {
  readonly engine: Datasets;
  readonly idempotency: Idempotency;
}

/** `TableIndexNotFound`. */
const dropIndex =
  ({ idempotency, engine, ...deps }: DropIndexDeps) =>
  (command: DropIndexCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('drop_index', command, scope, async (keyed) => {
      const { branch, name } = command;
      const table = await deps.access.findCreated(command.table);
      await deps.access.onFilesOf(table, () => requireOn(engine, table, branch, name));
      const steps = [{ step: { kind: 'drop index', name }, file: undefined }] as const;
      return submitChange(deps, { operation: 'drop_index', table, branch, steps }, scope, keyed);
    });

async function requireOn(engine: Datasets, { location }: TableRecord, branch: BranchName | undefined, name: string) {
  const dataset = await engine.open({ location, branch });
  try {
    requireIndex((await dataset.layout()).indexes, name);
  } finally {
    dataset.close();
  }
}

export const dropIndexRoute = jsonRoute(dropIndex, {
  methods: ['POST'],
  path: '/v1/table/:id/index/:index/drop',
  target: tableTarget,
  action: 'DropTableIndex',
  summary: 'Drops an index',
  answers: Written,
  body: IndexNameBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    requireSameIndex(body, input.index);
    return writeAnswer(input, await operation({ table, branch, name: input.index, idempotency }, input.scope), {});
  },
});
