import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../../endpoint/route.ts';
import type { BranchName } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import {
  keepVersion,
  pick,
  type UpdateTagCommand,
  VersionBody,
  type WritingDeps,
  whileTagsStand,
} from './standing-tags.ts';

const updateTag =
  (deps: WritingDeps) =>
  async (command: UpdateTagCommand, scope: RequestScope): Promise<void> =>
    whileTagsStand(deps, command.table, scope, async ({ tags }, tableId) => {
      const { tag: name, branch, version, requireOn } = command;
      const before = pick(await tags.list(), { ...command, branch: undefined });
      requireOn(before.branch);
      const manifestBytes = await keepVersion(deps, tableId, command, scope);
      const { requestId } = scope;
      await deps.recoveryMarks.confirm(command.table);
      await tags.update({ name, branch, version, manifestBytes, requestId, nowMs: deps.clock.nowMs() }, before);
    });

/** Needs the right on the branch that the tag comes to, and on the one that it leaves. */
export const updateTagRoute = onceRoute('update_tag', updateTag, {
  path: '/v1/table/:id/tags/update',
  target: tableTarget,
  keyedBy: 'Idempotency-Key or x-request-id',
  action: 'UpdateTableTag',
  summary: 'Gives the name to another version',
  answers: Nothing,
  body: VersionBody,
  branches: (_, branch) => [branch],
  audit: ({ tag, version }) => ({ tag, version }),
  answer: async (operation, { target: table, branch, body: { tag, version } }, { access }) => {
    const requireOn = (leaving: BranchName | undefined) =>
      access.require('UpdateTableTag', { kind: 'table', table }, leaving);
    await operation({ table, branch, tag, version, visible: visibleTo(access, table), requireOn });
    return {};
  },
});
