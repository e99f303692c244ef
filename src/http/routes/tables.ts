/** Tables as objects of a namespace: everything but what touches their rows or describes them in detail. */
import Type from 'typebox';
import { showTable, type TableRef } from '../../kernel/ids.ts';
import type { Operations, TableDescription } from '../../operations/commands.ts';
import { readFlag } from '../../wire/flags.ts';
import { StringMap, Version } from '../../wire/json-body.ts';
import { parseChoice, registerModes } from '../../wire/mode.ts';
import { readPage } from '../../wire/paging.ts';
import type { QueryParameters } from '../../wire/query-parameters.ts';
import { jsonRoute } from '../json-route.ts';
import { type Allows, emptyAnswer, type Route } from '../route.ts';
import { namespaceTarget, rootTarget, tableTarget } from '../targets.ts';

const Nothing = Type.Object({});
const ExistsBody = Type.Object({ version: Type.Optional(Version) });
const DeclareBody = Type.Object({ location: Type.Optional(Type.String()), properties: Type.Optional(StringMap) });
const RegisterBody = Type.Object({
  location: Type.String(),
  mode: Type.Optional(Type.String()),
  properties: Type.Optional(StringMap),
});

const mayDescribe =
  (allows: Allows) =>
  (table: TableRef): boolean =>
    allows('DescribeTable', { kind: 'table', table });

const includesDeclared = (query: QueryParameters): boolean => readFlag(query, 'include_declared') ?? true;

const listTables = (operations: Operations): Route =>
  jsonRoute({
    methods: ['GET'],
    path: '/v1/namespace/:id/table/list',
    target: namespaceTarget,
    action: 'ListTables',
    body: Nothing,
    answer: async ({ target: namespace, query, allows }) => {
      const { items, next } = await operations.listTables({
        namespace,
        page: readPage(query),
        includeDeclared: includesDeclared(query),
        visible: mayDescribe(allows),
      });
      return { tables: items, page_token: next };
    },
  });

/** With a trailing slash it is the LanceDB SDK, which means the root's own tables; without, all tables by full id. */
const listAllTables = (operations: Operations): Route =>
  jsonRoute({
    methods: ['GET'],
    path: '/v1/table',
    target: rootTarget,
    action: 'ListTables',
    body: Nothing,
    answer: async ({ target: root, query, delimiter, hasTrailingSlash, allows }) => {
      const command = {
        page: readPage(query),
        includeDeclared: includesDeclared(query),
        visible: mayDescribe(allows),
      };
      if (hasTrailingSlash) {
        const { items, next } = await operations.listTables({ namespace: root, ...command });
        return { tables: items, page_token: next };
      }
      const { items, next } = await operations.listAllTables(command);
      return { tables: items.map((table) => showTable(table, delimiter)), page_token: next };
    },
  });

const declareTable = (operations: Operations): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/declare',
    target: tableTarget,
    action: 'DeclareTable',
    body: DeclareBody,
    answer: async ({ target: table, body: { location, properties = {} } }) => {
      const declared = await operations.declareTable({ table, location, properties });
      return {
        location: declared.location,
        storage_options: declared.storageOptions,
        properties: declared.properties,
      };
    },
  });

const registerTable = (operations: Operations): Route =>
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
      const { location, properties } = await operations.registerTable({
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

const tableExists = (operations: Operations): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/exists',
    target: tableTarget,
    action: 'TableExists',
    body: ExistsBody,
    answer: ({ target: table, body: { version } }) => operations.tableExists({ table, version }),
    render: () => emptyAnswer,
  });

const dropTable = (operations: Operations): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/drop',
    target: tableTarget,
    action: 'DropTable',
    body: Nothing,
    answer: async ({ target: table }) => goneTable(await operations.dropTable({ table })),
  });

const deregisterTable = (operations: Operations): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/deregister',
    target: tableTarget,
    action: 'DeregisterTable',
    body: Nothing,
    answer: async ({ target: table }) => goneTable(await operations.deregisterTable({ table })),
  });

const goneTable = ({ table, location, properties }: TableDescription) => ({
  id: tableTarget.parts(table),
  location,
  properties,
});

export const tableRoutes = (operations: Operations): readonly Route[] =>
  [listTables, listAllTables, declareTable, registerTable, tableExists, dropTable, deregisterTable].map((make) =>
    make(operations),
  );
