import type { RequestScope } from '../../kernel/request-scope.ts';
import type { MergeRowsCommand, MergeRowsResult } from '../../merge/merge-command.ts';
import { MergeRows } from '../../merge/request.ts';
import type { Idempotency, Replayable } from '../idempotency/idempotency.ts';

export function mergeRows(deps: ConstructorParameters<typeof MergeRows>[0] & { idempotency: Idempotency }) {
  const merging = new MergeRows(deps);
  return (command: MergeRowsCommand, scope: RequestScope): Promise<Replayable<MergeRowsResult>> =>
    deps.idempotency.once('merge_insert', command, scope, (keyed) => merging.run(command, scope, keyed));
}
