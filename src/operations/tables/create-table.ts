import type { CreateTableCommand, CreateTableResult } from '../../create/command.ts';
import { CreateTable as Creation } from '../../create/request.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Idempotency, Replayable } from '../idempotency/idempotency.ts';

export type CreateTable = ReturnType<typeof createTable>;

export function createTable(deps: ConstructorParameters<typeof Creation>[0] & { idempotency: Idempotency }) {
  const creation = new Creation(deps);
  return (command: CreateTableCommand, scope: RequestScope): Promise<Replayable<CreateTableResult>> =>
    deps.idempotency.once('create_table', command, scope, (keyed) => creation.run(command, scope, keyed));
}
