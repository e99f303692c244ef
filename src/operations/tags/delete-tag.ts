import { jsonRoute, Nothing, onceAnswer } from '../../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../../endpoint/route.ts';
import { answeredOnce } from '../../idempotency/idempotency.ts';
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
export const deleteTagRoute = jsonRoute(answeredOnce('delete_tag', deleteTag), {
  methods: ['POST'],
  path: '/v1/table/:id/tags/delete',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key or x-request-id',
  action: 'DeleteTableTag',
  summary: 'Takes the name away',
  answers: Nothing,
  body: NameBody,
  branches: (_, branch) => [branch],
  audit: ({ tag }) => ({ tag }),
  answer: async (operation, { target: table, branch, body: { tag }, idempotency }, input) => {
    const { access, scope } = input;
    const requireOn = (of: BranchName | undefined) => access.require('DeleteTableTag', { kind: 'table', table }, of);
    const command = { table, branch, tag, idempotency, visible: visibleTo(access, table), requireOn };
    onceAnswer(input, await operation(command, scope));
    return {};
  },
});
