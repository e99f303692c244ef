/** Tables as objects of a namespace: everything but what touches their rows or describes them in detail. */
import Type from 'typebox';
import { showTable, type TableRef } from '../../kernel/ids.ts';
import type { DeclareTable } from '../../operations/tables/declare-table.ts';
import type { DeregisterTable } from '../../operations/tables/deregister-table.ts';
import type { DropTable } from '../../operations/tables/drop-table.ts';
import type { ListTables } from '../../operations/tables/list-tables.ts';
import type { RegisterTable } from '../../operations/tables/register-table.ts';
import type { TableExists } from '../../operations/tables/table-exists.ts';
import type { TableDescription } from '../../table/table-access.ts';
import { parseChoice, registerModes } from '../../wire/create-parameters.ts';
import { StringMap, Version } from '../../wire/json-body.ts';
import { type QueryParameters, readFlag, readPage } from '../../wire/query-parameters.ts';
import { jsonRoute } from '../json-route.ts';
import { type Allows, emptyAnswer, namespaceTarget, type Route, rootTarget, tableTarget } from '../route.ts';

const Nothing = Type.Object({});
const ExistsBody = Type.Object({ version: Type.Optional(Version) });
const DeclareBody = Type.Object({ location: Type.Optional(Type.String()), properties: Type.Optional(StringMap) });
const RegisterBody = Type.Object({
  location: Type.String(),
  mode: Type.Optional(Type.String()),
  properties: Type.Optional(StringMap),
});

const readListing = (query: QueryParameters, allows: Allows) => ({
  page: readPage(query),
  includeDeclared: readFlag(query, 'include_declared') ?? true,
  visible: (table: TableRef): boolean => allows('DescribeTable', { kind: 'table', table }),
});

const listTablesOfNamespace = (listTables: ListTables): Route =>
  jsonRoute({
    methods: ['GET'],
    path: '/v1/namespace/:id/table/list',
    target: namespaceTarget,
    action: 'ListTables',
    body: Nothing,
    answer: async ({ target: namespace, query, allows }) => {
      const { items, next } = await listTables({ namespace, ...readListing(query, allows) });
      return { tables: items.map(({ name }) => name), page_token: next };
    },
  });

/** With a trailing slash it is the LanceDB SDK, which means the root's own tables; without, all tables by full id. */
const listAllTables = (listTables: ListTables): Route =>
  jsonRoute({
    methods: ['GET'],
    path: '/v1/table',
    target: rootTarget,
    action: 'ListTables',
    body: Nothing,
    answer: async ({ target: root, query, delimiter, hasTrailingSlash, allows }) => {
      const namespace = hasTrailingSlash ? root : undefined;
      const { items, next } = await listTables({ namespace, ...readListing(query, allows) });
      return { tables: items.map((table) => showTable(table, delimiter)), page_token: next };
    },
  });

export const listTablesRoutes = (listTables: ListTables): readonly Route[] => [
  listTablesOfNamespace(listTables),
  listAllTables(listTables),
];

export const declareTableRoute = (declareTable: DeclareTable): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/declare',
    target: tableTarget,
    action: 'DeclareTable',
    body: DeclareBody,
    answer: async ({ target: table, body: { location, properties = {} } }) => {
      const declared = await declareTable({ table, location, properties });
      return {
        location: declared.location,
        storage_options: declared.storageOptions,
        properties: declared.properties,
      };
    },
  });

export const registerTableRoute = (registerTable: RegisterTable): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/register',
    target: tableTarget,
    action: 'RegisterTable',
    body: RegisterBody,
    audit: ({ mode, location }) => ({ mode: parseChoice(mode, 'mode', registerModes), location }),
    furtherActions: ({ mode }) => (parseChoice(mode, 'mode', registerModes) === 'overwrite' ? ['DeregisterTable'] : []),
    answer: async ({ target: table, body, needs }) => {
      const mode = parseChoice(body.mode, 'mode', registerModes);
      const { location, properties } = await registerTable({
        table,
        location: body.location,
        mode,
        properties: body.properties ?? {},
        mayAdopt: (owner) =>
          'table' in owner
            ? needs('RegisterTable', { kind: 'table', table: owner.table })
            : needs('RegisterTable', { kind: 'namespace', path: owner.namespace }),
      });
      return { location, properties };
    },
  });

export const tableExistsRoute = (tableExists: TableExists): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/exists',
    target: tableTarget,
    action: 'TableExists',
    body: ExistsBody,
    answer: ({ target: table, body: { version } }) => tableExists({ table, version }),
    render: () => emptyAnswer,
  });

export const dropTableRoute = (dropTable: DropTable): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/drop',
    target: tableTarget,
    action: 'DropTable',
    body: Nothing,
    answer: async ({ target: table }) => goneTable(await dropTable({ table })),
  });

export const deregisterTableRoute = (deregisterTable: DeregisterTable): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/deregister',
    target: tableTarget,
    action: 'DeregisterTable',
    body: Nothing,
    answer: async ({ target: table }) => goneTable(await deregisterTable({ table })),
  });

const goneTable = ({ table, location, properties }: TableDescription) => ({
  id: tableTarget.parts(table),
  location,
  properties,
});
