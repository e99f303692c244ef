import type { CreateTableCommand, CreateTableResult } from '../../create/create-command.ts';
import { CreateTable } from '../../create/request.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Idempotency, Replayable } from '../idempotency/idempotency.ts';

export function createTable(deps: ConstructorParameters<typeof CreateTable>[0] & { idempotency: Idempotency }) {
  const creation = new CreateTable(deps);
  return (command: CreateTableCommand, scope: RequestScope): Promise<Replayable<CreateTableResult>> =>
    deps.idempotency.once('create_table', command, scope, (keyed) => creation.run(command, scope, keyed));
}
