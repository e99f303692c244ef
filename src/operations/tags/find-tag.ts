import Type from 'typebox';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../../endpoint/route.ts';
import type { StoredTag } from '../../engine/port/stored-tags.ts';
import { Version } from '../../wire/json-body.ts';
import { NameBody, pick, type ReadingDeps, type TagCommand } from './standing-tags.ts';

export const findTag =
  ({ access }: ReadingDeps) =>
  async (command: TagCommand): Promise<StoredTag> => {
    const { tags } = await access.latest(await access.findCreated(command.table), undefined);
    return pick(await tags.list(), command);
  };

const TaggedVersion = Type.Object({ version: Version, branch: Type.Optional(Type.String()) });

export const tagVersionRoute = jsonRoute(findTag, {
  path: '/v1/table/:id/tags/version',
  target: tableTarget,
  action: 'GetTableTagVersion',
  summary: 'Shows the version that a tag names',
  answers: TaggedVersion,
  body: NameBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body: { tag } }, { access }) => {
    const found = await operation({ table, branch, tag, visible: visibleTo(access, table) });
    return { version: found.version, branch: found.branch };
  },
});
