import Type from 'typebox';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { StoredTag } from '../../engine/port/stored-tags.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { consumerTag, requireRoomForConsumer } from '../../table/consumers.ts';
import { Version } from '../../wire/json-body.ts';
import { keepVersion, type WritingDeps, whileTagsStand } from './standing-tags.ts';

interface AcknowledgeCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly consumer: string;
  readonly version: number;
}

/**
 * A consumer goes forward only, and the same version again changes nothing: so what it keeps from removal has an end, whatever it
 * sends.
 */
const acknowledgeChanges =
  (deps: WritingDeps) =>
  async ({ table, branch, consumer, version }: AcknowledgeCommand, scope: RequestScope): Promise<void> => {
    const name = consumerTag(consumer);
    await whileTagsStand(deps, table, scope, async ({ tags }, tableId) => {
      const all = await tags.list();
      const before = all.find((tag) => tag.name === name);
      if (before === undefined) requireRoomForConsumer(all);
      else if (!isForward(before, branch, version)) return;
      const { requestId } = scope;
      const manifestBytes = await keepVersion(deps, tableId, { table, tag: name, branch, version }, scope);
      const tag = { name, branch, version, manifestBytes, requestId, nowMs: deps.clock.nowMs() };
      await deps.recoveryMarks.confirm(table);
      if (before !== undefined) await tags.update(tag, before);
      else if (!(await tags.create(tag)))
        throw new LancegateError('ConcurrentModification', 'another program made the tag of the consumer', {
          retryAfterSeconds: 1,
        });
    });
  };

/** False where it is the same version. */
function isForward(before: StoredTag, branch: BranchName | undefined, version: number): boolean {
  if (before.branch !== branch)
    throw invalidInput('branch: the consumer takes the changes of another one: delete its tag first');
  if (before.version > version)
    throw invalidInput(`version: the consumer has acknowledged version ${before.version} already`);
  return before.version < version;
}

export const acknowledgeChangesRoute = onceRoute('update_tag', acknowledgeChanges, {
  path: '/v1/table/:id/changes/acknowledge',
  target: tableTarget,
  action: 'AcknowledgeTableChanges',
  summary: 'Says which changes a consumer has taken: those after them are kept for it',
  answers: Nothing,
  body: Type.Object({ consumer: Type.String(), version: Version }),
  branches: (_, branch) => [branch],
  audit: ({ consumer, version }) => ({ tag: consumerTag(consumer), version }),
  answer: async (operation, { target: table, branch, body: { consumer, version } }) => {
    await operation({ table, branch, consumer, version });
    return {};
  },
});
