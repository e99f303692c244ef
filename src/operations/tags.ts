/**
 * Tags: names for versions that pruning then leaves there. What changes them holds the table's lock shared, so that no branch
 * comes or goes, and the lock of its tags, which pruning holds too: a version that was seen under it is there when the tag is.
 */
import Type from 'typebox';
import { jsonRoute, Nothing, onceAnswer } from '../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../endpoint/route.ts';
import type { BranchHead, History, Snapshot } from '../engine/port/dataset.ts';
import type { StoredTag, Tagged } from '../engine/port/stored-tags.ts';
import { answeredOnce } from '../idempotency/idempotency.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableId, type TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { RecoveryMarks } from '../table/recovery-marks.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import { parseTagName } from '../wire/identifiers.ts';
import { Count, mapOf, nextPage, PageBody, pageFields, StringMap, Version } from '../wire/json-body.ts';
import { type Page, readPage } from '../wire/query-parameters.ts';
import { type Listing, type Visible, visiblePage } from './visible-page.ts';

interface ReadingDeps {
  readonly access: TableAccess;
}

interface WritingDeps extends ReadingDeps {
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly clock: Clock;
}

/** A tag on a branch that is not visible is answered like one that does not exist. */
interface TagCommand {
  readonly table: TableRef;
  readonly tag: string;
  /** The one that the tag must be on, where the client names one. */
  readonly branch: BranchName | undefined;
  readonly visible: Visible<BranchName | undefined>;
}

interface ListTagsCommand extends Pick<TagCommand, 'table' | 'visible'> {
  readonly page: Page;
}

/** By name. */
const listTags =
  ({ access }: ReadingDeps) =>
  async ({ table, page, visible }: ListTagsCommand): Promise<Listing<StoredTag>> => {
    const { tags } = await access.latest(await access.findCreated(table), undefined);
    const sorted = [...(await tags.list())].sort((a, b) => (a.name < b.name ? -1 : 1));
    return visiblePage(
      page,
      async ({ after, limit }) => sorted.filter(({ name }) => after === undefined || name > after).slice(0, limit),
      ({ name }) => name,
      ({ branch }) => visible(branch),
    );
  };

export const findTag =
  ({ access }: ReadingDeps) =>
  async (command: TagCommand): Promise<StoredTag> => {
    const { tags } = await access.latest(await access.findCreated(command.table), undefined);
    return pick(await tags.list(), command);
  };

function pick(tags: readonly StoredTag[], { table, tag: name, branch, visible }: TagCommand): StoredTag {
  const found = tags.find((tag) => tag.name === name);
  const isMeant = found !== undefined && (branch === undefined || found.branch === branch) && visible(found.branch);
  if (isMeant) return found;
  throw new LancegateError('TableTagNotFound', `table '${showTable(table)}' has no tag '${name}'`);
}

interface CreateTagCommand extends Pick<TagCommand, 'table' | 'tag' | 'branch'> {
  readonly version: number;
}

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

interface UpdateTagCommand extends CreateTagCommand {
  readonly visible: TagCommand['visible'];
  /** Throws unless the principal may move a tag away from that branch. */
  readonly requireOn: (branch: BranchName | undefined) => void;
}

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

async function whileTagsStand(
  { access, locks }: WritingDeps,
  table: TableRef,
  { signal }: RequestScope,
  work: (main: Tagged, tableId: TableId) => Promise<void>,
): Promise<void> {
  await access.findCreated(table);
  const leave = await locks.lockShared(table, signal);
  try {
    const release = await locks.lockTags(table, signal);
    try {
      const record = await access.findCreated(table);
      await access.onFilesOf(record, async () => work(await access.latest(record, undefined), record.id));
    } finally {
      release();
    }
  } finally {
    leave();
  }
}

/**
 * Returns the size of the version's manifest. The version is durable by then, as the tag will be: also one that is being
 * acknowledged, or that another program made. `TableBranchNotFound`, `TableVersionNotFound`; `InvalidTableState` for a branch that has
 * gone back.
 */
async function keepVersion(
  { access, locks, recoveryMarks }: WritingDeps,
  tableId: TableId,
  { table, branch, version }: CreateTagCommand,
  { signal }: RequestScope,
): Promise<number> {
  const record = await access.findCreated(table);
  const release = await locks.lockBranch(table, branch, signal);
  try {
    const dataset: Snapshot & BranchHead & History = await access.latest(record, branch);
    const [found] = await dataset.versionPage({ after: version - 1, limit: 1, order: 'ascending' });
    if (found?.version !== version || !(await dataset.isWhole(version)))
      throw new LancegateError('TableVersionNotFound', `table '${showTable(table)}' has no version ${version}`);
    await recoveryMarks.requireNotBehind({ id: tableId, ref: table }, branch, dataset);
    await recoveryMarks.acknowledge(tableId, branch, dataset);
    return found.manifestBytes ?? 0;
  } finally {
    release();
  }
}

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
