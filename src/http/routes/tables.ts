/** Tables as objects of a namespace: everything but what touches their rows or describes them in detail. */
import Type from 'typebox';
import { resourceUid } from '../../auth/policy/cedar-policy.ts';
import { answeredOnce } from '../../idempotency/idempotency.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import { cloneTable } from '../../operations/tables/clone-table.ts';
import { declareTable } from '../../operations/tables/declare-table.ts';
import { tableExists } from '../../operations/tables/describe-table.ts';
import { deregisterTable, dropTable } from '../../operations/tables/drop-table.ts';
import { listTables } from '../../operations/tables/list-tables.ts';
import { type LocationOwner, registerTable } from '../../operations/tables/register-table.ts';
import { renameTable } from '../../operations/tables/rename-table.ts';
import type { TableDescription } from '../../table/table-access.ts';
import { choiceOf, parseChoice, registerModes } from '../../wire/create-parameters.ts';
import { parseTableParts } from '../../wire/identifiers.ts';
import { nextPage, pageFields, StringMap, Version } from '../../wire/json-body.ts';
import { Flag, readFlag, readPage } from '../../wire/query-parameters.ts';
import { jsonRoute, Nothing, onceAnswer } from '../json-route.ts';
import { emptyAnswer, namespaceTarget, type RouteInput, rootTarget, tableTarget } from '../route.ts';

const ExistsBody = Type.Object({ version: Type.Optional(Version) });
const DeclareBody = Type.Object({ location: Type.Optional(Type.String()), properties: Type.Optional(StringMap) });
const RegisterBody = Type.Object({
  location: Type.String(),
  mode: choiceOf(registerModes),
  properties: Type.Optional(StringMap),
});

const RenameBody = Type.Object({
  new_table_name: Type.String(),
  new_namespace_id: Type.Optional(Type.Array(Type.String())),
  new_namespace: Type.Optional(Type.Array(Type.String())),
});

const CloneBody = Type.Object({
  source_location: Type.String(),
  source_version: Type.Optional(Version),
  source_tag: Type.Optional(Type.String()),
  is_shallow: Type.Optional(Type.Boolean()),
});

const TableNames = Type.Object({ tables: Type.Array(Type.String()), ...nextPage });
const ClonedTable = Type.Object({ location: Type.String() });
const PlacedTable = Type.Object({ location: Type.String(), properties: StringMap });
const DeclaredTable = Type.Object({
  location: Type.String(),
  storage_options: StringMap,
  properties: StringMap,
  managed_versioning: Type.Optional(Type.Boolean()),
});
const GoneTable = Type.Object({
  id: Type.Array(Type.String()),
  location: Type.Optional(Type.String()),
  properties: StringMap,
});

const listingParameters = { ...pageFields, include_declared: Flag };

const readListing = ({ query, access }: RouteInput<keyof typeof listingParameters>) => ({
  page: readPage(query),
  includeDeclared: readFlag(query, 'include_declared') ?? true,
  visible: (table: TableRef): boolean => access.allows('DescribeTable', { kind: 'table', table }),
});

export const listTablesRoute = jsonRoute(listTables, {
  methods: ['GET'],
  path: '/v1/namespace/:id/table/list',
  target: namespaceTarget,
  action: 'ListTables',
  summary: 'Lists the tables of a namespace',
  query: listingParameters,
  answers: TableNames,
  body: Nothing,
  answer: async (operation, { target: namespace }, input) => {
    if (namespace.length === 0) input.database.requireNamed();
    const { items, next } = await operation({ namespace, ...readListing(input) });
    return { tables: items.map(({ name }) => name), page_token: next };
  },
});

/** With a trailing slash it is the LanceDB SDK, which means the root's own tables; without, all tables by full id. */
export const listAllTablesRoute = jsonRoute(listTables, {
  methods: ['GET'],
  path: '/v1/table',
  target: rootTarget,
  action: 'ListTables',
  summary: 'Lists all tables, by their full identifiers',
  operationId: 'ListAllTables',
  query: listingParameters,
  answers: TableNames,
  body: Nothing,
  answer: async (operation, { target: root, delimiter }, input) => {
    const { database, hasTrailingSlash } = input;
    if (hasTrailingSlash) database.requireNamed();
    const namespace = hasTrailingSlash ? root : { below: root };
    const { items, next } = await operation({ namespace, ...readListing(input) });
    return { tables: items.map((table) => showTable(database.shown(table), delimiter)), page_token: next };
  },
});

export const declareTableRoute = jsonRoute(answeredOnce('declare_table', declareTable), {
  methods: ['POST'],
  path: '/v1/table/:id/declare',
  target: tableTarget,
  needsOwner: true,
  makesTable: true,
  keyedBy: 'Idempotency-Key',
  action: 'DeclareTable',
  summary: 'Reserves the name of a table that has no rows yet',
  answers: DeclaredTable,
  body: DeclareBody,
  answer: async (operation, { target: table, body: { location, properties = {} }, idempotency }, input) => {
    const command = { table, location, properties, idempotency };
    const declared = onceAnswer(input, await operation(command, input.scope));
    return {
      location: declared.location,
      storage_options: declared.storageOptions,
      properties: declared.properties,
      ...(declared.isManaged && { managed_versioning: true }),
    };
  },
});

export const registerTableRoute = jsonRoute(answeredOnce('register_table', registerTable), {
  methods: ['POST'],
  path: '/v1/table/:id/register',
  target: tableTarget,
  needsOwner: true,
  makesTable: true,
  keyedBy: 'Idempotency-Key',
  action: 'RegisterTable',
  summary: 'Gives a name to a table that is there already',
  answers: PlacedTable,
  body: RegisterBody,
  audit: ({ mode, location }) => ({ mode: parseChoice(mode, 'mode', registerModes), location }),
  furtherActions: ({ mode }) => (parseChoice(mode, 'mode', registerModes) === 'overwrite' ? ['DeregisterTable'] : []),
  answer: async (operation, { target: table, body, idempotency }, input) => {
    const { access } = input;
    const command = {
      table,
      location: body.location,
      mode: parseChoice(body.mode, 'mode', registerModes),
      properties: body.properties ?? {},
      idempotency,
      mayAdopt: (owner: LocationOwner) =>
        'table' in owner
          ? access.needs('RegisterTable', { kind: 'table', table: owner.table })
          : access.needs('RegisterTable', { kind: 'namespace', path: owner.namespace }),
    };
    const { location, properties } = onceAnswer(input, await operation(command, input.scope));
    return { location, properties };
  },
});

export const tableExistsRoute = jsonRoute(tableExists, {
  methods: ['POST'],
  path: '/v1/table/:id/exists',
  target: tableTarget,
  action: 'TableExists',
  summary: 'Says whether a table exists',
  answers: undefined,
  body: ExistsBody,
  answer: (operation, { target: table, body: { version } }) => operation({ table, version }),
  render: () => emptyAnswer,
});

/** Needs the right on both names. The LanceDB SDKs spell the field of the namespace in another way. */
export const renameTableRoute = jsonRoute(answeredOnce('rename_table', renameTable), {
  methods: ['POST'],
  path: '/v1/table/:id/rename',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key',
  action: 'RenameTable',
  summary: 'Renames a table, or moves it to another namespace',
  answers: Nothing,
  body: RenameBody,
  answer: async (operation, { target: table, body, idempotency }, input) => {
    const { access, context, database } = input;
    const namespace = body.new_namespace_id ?? body.new_namespace ?? database.shownNamespace(table.namespace);
    const to = database.table(parseTableParts(namespace, body.new_table_name));
    context.note({ newTable: resourceUid({ kind: 'table', table: to }).id });
    access.require('RenameTable', { kind: 'table', table: to });
    onceAnswer(input, await operation({ table, to, idempotency }, input.scope));
    return {};
  },
});

/**
 * Needs the right on the new table and on the source. `is_shallow` changes nothing: the clone takes no space, as a shallow one,
 * and does not depend on the source, as a deep one.
 */
export const cloneTableRoute = jsonRoute(answeredOnce('clone_table', cloneTable), {
  methods: ['POST'],
  path: '/v1/table/:id/clone',
  target: tableTarget,
  needsOwner: true,
  makesTable: true,
  keyedBy: 'Idempotency-Key',
  action: 'CloneTable',
  summary: 'Makes a new table of what another one holds',
  answers: ClonedTable,
  body: CloneBody,
  audit: ({ source_location: location }) => ({ location }),
  answer: async (operation, { target: table, body, idempotency }, input) => {
    const { access, scope } = input;
    const { source_location: sourceLocation, source_version: sourceVersion, source_tag: sourceTag } = body;
    const mayClone = (source: TableRef, branch: BranchName | undefined) =>
      access.needs('CloneTable', { kind: 'table', table: source }, branch);
    const command = { table, sourceLocation, sourceVersion, sourceTag, mayClone, idempotency };
    const { location } = onceAnswer(input, await operation(command, scope));
    return { location };
  },
});

export const dropTableRoute = jsonRoute(answeredOnce('drop_table', dropTable), {
  methods: ['POST'],
  path: '/v1/table/:id/drop',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key',
  action: 'DropTable',
  summary: 'Drops a table and its files',
  answers: GoneTable,
  body: Nothing,
  answer: async (operation, { target: table, idempotency }, input) =>
    goneTable(onceAnswer(input, await operation({ table, idempotency }, input.scope)), input),
});

export const deregisterTableRoute = jsonRoute(answeredOnce('deregister_table', deregisterTable), {
  methods: ['POST'],
  path: '/v1/table/:id/deregister',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key',
  action: 'DeregisterTable',
  summary: 'Forgets a table, and leaves its files',
  answers: GoneTable,
  body: Nothing,
  answer: async (operation, { target: table, idempotency }, input) =>
    goneTable(onceAnswer(input, await operation({ table, idempotency }, input.scope)), input),
});

/** What it was like is for those who may describe it. */
function goneTable({ table, location, properties }: TableDescription, { access, database }: RouteInput) {
  const isShown = access.allows('DescribeTable', { kind: 'table', table });
  return {
    id: tableTarget.parts(table, database),
    ...(isShown && { location }),
    properties: isShown ? properties : {},
  };
}
