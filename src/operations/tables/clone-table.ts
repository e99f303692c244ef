/**
 * Makes a table of one version of another: a dataset of its own, whatever becomes of the source. While its files are linked the
 * source can neither be dropped nor pruned; its writers go on.
 */
import Type from 'typebox';
import type { AnswerOf, TableCatalog, TableRecord } from '../../catalog/port.ts';
import { tableAlreadyExists } from '../../catalog/refusals.ts';
import type { TableMaker } from '../../create/table-maker.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Locations } from '../../engine/port/engine.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { TableOwners } from '../../table/table-owners.ts';
import { Version } from '../../wire/json-body.ts';
import { findTag } from '../tags/find-tag.ts';

interface Deps {
  readonly catalog: TableCatalog;
  readonly engine: Locations;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly maker: TableMaker;
  readonly owners: Pick<TableOwners, 'acquire'>;
}

interface CloneTableCommand {
  readonly table: TableRef;
  /** As `describe` names it, or relative to the storage root. */
  readonly sourceLocation: string;
  /** The newest is meant if there is neither. */
  readonly sourceVersion: number | undefined;
  readonly sourceTag: string | undefined;
  /** If it refuses, the answer is that of an empty location (P9). */
  readonly mayClone: (source: TableRef, branch: BranchName | undefined) => boolean;
}

export const cloneTable =
  (deps: Deps) =>
  async (
    command: CloneTableCommand,
    { signal }: RequestScope,
    answered?: AnswerOf<TableDescription>,
  ): Promise<TableDescription> => {
    const { table } = command;
    const { catalog, access, locks, maker } = deps;
    const source = await findSource(deps, command);
    using _source = await deps.owners.acquire([source.ref], signal);
    const existing = await catalog.findTable(table);
    if (existing?.state === 'created') throw tableAlreadyExists(table);
    await using creation = await maker.begin({ table, existing, properties: undefined, storageOptions: {} });
    const written = await locks.whileTagsStand(source.ref, signal, async () => {
      await access.requireUnchanged(source);
      return creation.clone({ location: source.location, ...(await versionOf(access, source, command)) });
    });
    const description = access.describe(written.record, undefined);
    const publish = await locks.lockExclusive(table, signal);
    try {
      await creation.publish(written, {
        operation: 'create_table',
        outcome: { mode: 'clone', num_inserted_rows: String(written.rows) },
        answer: answered?.(description),
      });
    } finally {
      publish();
    }
    return description;
  };

/** Throws `InvalidInput` for a location outside the root, or without a table that may be cloned. */
async function findSource(
  { catalog, engine }: Deps,
  { sourceLocation, sourceVersion, sourceTag, mayClone }: CloneTableCommand,
): Promise<TableRecord> {
  if (sourceVersion !== undefined && sourceTag !== undefined) {
    throw invalidInput('source_version and source_tag: give one of them');
  }
  const location = engine.locationOf(sourceLocation, 'source_location');
  const known = await catalog.locationsAt(location, 'exact');
  const owner = known.find((each) => each.location === location && each.state === 'held')?.owner;
  const record = owner !== undefined && mayClone(owner, undefined) ? await catalog.findTable(owner) : undefined;
  if (record?.location === location && record.state === 'created') return record;
  throw invalidInput('source_location: no table is stored there that this request can clone');
}

async function versionOf(
  access: TableAccess,
  source: TableRecord,
  { sourceTag, sourceVersion, mayClone }: CloneTableCommand,
): Promise<{ readonly branch: BranchName | undefined; readonly version: number }> {
  if (sourceTag !== undefined) {
    const { ref } = source;
    const visible = (branch: BranchName | undefined) => mayClone(ref, branch);
    const { branch, version } = await findTag({ access })({ table: ref, branch: undefined, tag: sourceTag, visible });
    return { branch, version };
  }
  const newest = () => access.read(source, undefined, undefined, (dataset) => dataset.version());
  return { branch: undefined, version: sourceVersion ?? (await newest()) };
}

const CloneBody = Type.Object({
  source_location: Type.String(),
  source_version: Type.Optional(Version),
  source_tag: Type.Optional(Type.String()),
  is_shallow: Type.Optional(Type.Boolean()),
});

const ClonedTable = Type.Object({ location: Type.String() });

/**
 * Needs the right on the new table and on the source. `is_shallow` changes nothing: the clone takes no space, as a shallow one,
 * and does not depend on the source, as a deep one.
 */
export const cloneTableRoute = onceRoute('clone_table', cloneTable, {
  path: '/v1/table/:id/clone',
  target: tableTarget,
  makesTable: true,
  action: 'CloneTable',
  summary: 'Makes a new table of what another one holds',
  answers: ClonedTable,
  body: CloneBody,
  audit: ({ source_location: location }) => ({ location }),
  answer: async (operation, { target: table, body }, { access }) => {
    const { source_location: sourceLocation, source_version: sourceVersion, source_tag: sourceTag } = body;
    const mayClone = (source: TableRef, branch: BranchName | undefined) =>
      access.needs('CloneTable', { kind: 'table', table: source }, branch);
    const { location } = await operation({ table, sourceLocation, sourceVersion, sourceTag, mayClone });
    return { location };
  },
});
