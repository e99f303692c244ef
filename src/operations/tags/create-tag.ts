import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { showTable, type TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { parseTagName } from '../../wire/identifiers.ts';
import { type CreateTagCommand, keepVersion, VersionBody, type WritingDeps, whileTagsStand } from './standing-tags.ts';

/** The same tag again by the same request is a retry after a lost answer, and succeeds. */
const createTag =
  (deps: WritingDeps) =>
  async (command: CreateTagCommand, scope: RequestScope): Promise<void> =>
    whileTagsStand(deps, command.table, scope, async ({ tags }, tableId) => {
      const { table, tag: name, branch, version } = command;
      const { requestId } = scope;
      const existing = (await tags.list()).find((tag) => tag.name === name);
      const isRetry = existing?.requestId === requestId && existing.branch === branch && existing.version === version;
      if (isRetry) return;
      if (existing !== undefined) throw tagExists(table, name);
      const manifestBytes = await keepVersion(deps, tableId, command, scope);
      const tag = { name, branch, version, manifestBytes, requestId, nowMs: deps.clock.nowMs() };
      await deps.recoveryMarks.confirm(table);
      if (!(await tags.create(tag))) throw tagExists(table, name);
    });

const tagExists = (table: TableRef, name: string): LancegateError =>
  new LancegateError('TableTagAlreadyExists', `table '${showTable(table)}' has a tag '${name}' already`);

export const createTagRoute = onceRoute('create_tag', createTag, {
  path: '/v1/table/:id/tags/create',
  target: tableTarget,
  action: 'CreateTableTag',
  summary: 'Gives a version a name',
  answers: Nothing,
  body: VersionBody,
  branches: (_, branch) => [branch],
  audit: ({ tag, version }) => ({ tag, version }),
  answer: async (operation, { target: table, branch, body: { tag, version } }) => {
    await operation({ table, branch, tag: parseTagName(tag), version });
    return {};
  },
});
