import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../../endpoint/route.ts';
import type { BranchName } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import {
  NameBody,
  pick,
  type TagCommand,
  type UpdateTagCommand,
  type WritingDeps,
  whileTagsStand,
} from './standing-tags.ts';

interface DeleteTagCommand extends TagCommand, Pick<UpdateTagCommand, 'requireOn'> {}

const deleteTag =
  (deps: WritingDeps) =>
  async (command: DeleteTagCommand, scope: RequestScope): Promise<void> =>
    whileTagsStand(deps, command.table, scope, async ({ tags }) => {
      const { name, branch } = pick(await tags.list(), command);
      command.requireOn(branch);
      await deps.recoveryMarks.confirm(command.table);
      await tags.remove(name);
    });

/** Needs the right on the branch of the tag, and on the one that the request names, which is main where it names none. */
export const deleteTagRoute = onceRoute('delete_tag', deleteTag, {
  path: '/v1/table/:id/tags/delete',
  target: tableTarget,
  keyedBy: 'Idempotency-Key or x-request-id',
  action: 'DeleteTableTag',
  summary: 'Takes the name away',
  answers: Nothing,
  body: NameBody,
  branches: (_, branch) => [branch],
  audit: ({ tag }) => ({ tag }),
  answer: async (operation, { target: table, branch, body: { tag } }, { access }) => {
    const requireOn = (of: BranchName | undefined) => access.require('DeleteTableTag', { kind: 'table', table }, of);
    await operation({ table, branch, tag, visible: visibleTo(access, table), requireOn });
    return {};
  },
});
