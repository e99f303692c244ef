import Type from 'typebox';
import { answeredOnce } from '../../../idempotency/idempotency.ts';
import type { BranchName } from '../../../kernel/ids.ts';
import { createTag, deleteTag, findTag, listTags, updateTag } from '../../../operations/tags.ts';
import { parseTagName } from '../../../wire/identifiers.ts';
import { Count, mapOf, nextPage, PageBody, pageFields, StringMap, Version } from '../../../wire/json-body.ts';
import { readPage } from '../../../wire/query-parameters.ts';
import { jsonRoute, Nothing, onceAnswer } from '../../json-route.ts';
import { tableTarget, visibleTo } from '../../route.ts';

const NameBody = Type.Object({ tag: Type.String() });
const VersionBody = Type.Object({ tag: Type.String(), version: Version });

const Tag = Type.Object({
  branch: Type.Optional(Type.String()),
  version: Version,
  manifestSize: Count,
  createdAt: Type.Optional(Type.String()),
  updatedAt: Type.Optional(Type.String()),
  metadata: Type.Optional(StringMap),
});
/** Without the layer of `tags` where the path ends in a slash. */
const Tags = Type.Object({ tags: mapOf(Tag), ...nextPage });
const TaggedVersion = Type.Object({ version: Version, branch: Type.Optional(Type.String()) });

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

export const tagVersionRoute = jsonRoute(findTag, {
  methods: ['POST'],
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

export const createTagRoute = jsonRoute(answeredOnce('create_tag', createTag), {
  methods: ['POST'],
  path: '/v1/table/:id/tags/create',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key',
  action: 'CreateTableTag',
  summary: 'Gives a version a name',
  answers: Nothing,
  body: VersionBody,
  branches: (_, branch) => [branch],
  audit: ({ tag, version }) => ({ tag, version }),
  answer: async (operation, { target: table, branch, body: { tag, version }, idempotency }, input) => {
    const command = { table, branch, tag: parseTagName(tag), version, idempotency };
    onceAnswer(input, await operation(command, input.scope));
    return {};
  },
});

/** Needs the right on the branch that the tag comes to, and on the one that it leaves. */
export const updateTagRoute = jsonRoute(answeredOnce('update_tag', updateTag), {
  methods: ['POST'],
  path: '/v1/table/:id/tags/update',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key or x-request-id',
  action: 'UpdateTableTag',
  summary: 'Gives the name to another version',
  answers: Nothing,
  body: VersionBody,
  branches: (_, branch) => [branch],
  audit: ({ tag, version }) => ({ tag, version }),
  answer: async (operation, { target: table, branch, body: { tag, version }, idempotency }, input) => {
    const { access, scope } = input;
    const requireOn = (leaving: BranchName | undefined) =>
      access.require('UpdateTableTag', { kind: 'table', table }, leaving);
    const command = { table, branch, tag, version, idempotency, visible: visibleTo(access, table), requireOn };
    onceAnswer(input, await operation(command, scope));
    return {};
  },
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
