import Type from 'typebox';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../../endpoint/route.ts';
import type { StoredTag } from '../../engine/port/stored-tags.ts';
import { Count, mapOf, nextPage, PageBody, pageFields, StringMap, Version } from '../../wire/json-body.ts';
import { type Page, readPage } from '../../wire/query-parameters.ts';
import { type Listing, visiblePageByName } from '../visible-page.ts';
import type { ReadingDeps, TagCommand } from './standing-tags.ts';

interface ListTagsCommand extends Pick<TagCommand, 'table' | 'visible'> {
  readonly page: Page;
}

const listTags =
  ({ access }: ReadingDeps) =>
  async ({ table, page, visible }: ListTagsCommand): Promise<Listing<StoredTag>> => {
    const { tags } = await access.latest(await access.findCreated(table), undefined);
    return visiblePageByName(page, await tags.list(), ({ branch }) => visible(branch));
  };

const Tag = Type.Object({
  branch: Type.Optional(Type.String()),
  version: Version,
  manifestSize: Count,
  createdAt: Type.Optional(Type.String()),
  updatedAt: Type.Optional(Type.String()),
  metadata: Type.Optional(StringMap),
});

/** The layer of `tags` is missing where the path ends in a slash. */
const Tags = Type.Object({ tags: mapOf(Tag), ...nextPage });

/**
 * The right to list is checked on main, the right to see a tag on its branch. LanceDB's SDKs, recognised by the slash, read the bare
 * map, and lance-namespace clients `tags`. The former follow no token and get the first page.
 */
export const listTagsRoute = jsonRoute(listTags, {
  methods: ['GET', 'POST'],
  path: '/v1/table/:id/tags/list',
  target: tableTarget,
  action: 'ListTableTags',
  summary: 'Lists the tags of a table',
  query: pageFields,
  answers: Tags,
  body: PageBody,
  answer: async (operation, { target: table, body }, { query, access, hasTrailingSlash }) => {
    const { items, next } = await operation({ table, page: readPage(query, body), visible: visibleTo(access, table) });
    const contents = items.map(({ name, manifestBytes: manifestSize, requestId: _, ...content }) => [
      name,
      { ...content, manifestSize },
    ]);
    const tags = Object.fromEntries(contents);
    return hasTrailingSlash ? tags : { tags, page_token: next };
  },
});
