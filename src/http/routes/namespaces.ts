import Type from 'typebox';
import {
  createNamespace,
  describeNamespace,
  dropNamespace,
  listNamespaces,
  namespaceExists,
} from '../../operations/namespaces.ts';
import { dropTable } from '../../operations/tables/drop-table.ts';
import { createModes, dropBehaviors, dropModes, parseChoice } from '../../wire/create-parameters.ts';
import { StringMap } from '../../wire/json-body.ts';
import { readPage } from '../../wire/query-parameters.ts';
import { jsonRoute, Nothing } from '../json-route.ts';
import { emptyAnswer, namespaceTarget } from '../route.ts';

const CreateBody = Type.Object({ mode: Type.Optional(Type.String()), properties: Type.Optional(StringMap) });
const DropBody = Type.Object({ mode: Type.Optional(Type.String()), behavior: Type.Optional(Type.String()) });

export const createNamespaceRoute = jsonRoute(createNamespace, {
  methods: ['POST'],
  path: '/v1/namespace/:id/create',
  target: namespaceTarget,
  action: 'CreateNamespace',
  body: CreateBody,
  audit: ({ mode }) => ({ mode: parseChoice(mode, 'mode', createModes) }),
  answer: async (operation, { target: namespace, body }) => {
    const mode = parseChoice(body.mode, 'mode', createModes);
    return { properties: await operation({ namespace, mode, properties: body.properties ?? {} }) };
  },
});

export const listNamespacesRoute = jsonRoute(listNamespaces, {
  methods: ['GET'],
  path: '/v1/namespace/:id/list',
  target: namespaceTarget,
  action: 'ListNamespaces',
  body: Nothing,
  answer: async (operation, { target: parent }, { query, access }) => {
    const { items, next } = await operation({
      parent,
      page: readPage(query),
      visible: (path) => access.allows('DescribeNamespace', { kind: 'namespace', path }),
    });
    return { namespaces: items, page_token: next };
  },
});

export const describeNamespaceRoute = jsonRoute(describeNamespace, {
  methods: ['POST'],
  path: '/v1/namespace/:id/describe',
  target: namespaceTarget,
  action: 'DescribeNamespace',
  body: Nothing,
  answer: async (operation, { target: namespace }) => ({ properties: await operation({ namespace }) }),
});

export const namespaceExistsRoute = jsonRoute(namespaceExists, {
  methods: ['POST'],
  path: '/v1/namespace/:id/exists',
  target: namespaceTarget,
  action: 'NamespaceExists',
  body: Nothing,
  answer: (operation, { target: namespace }) => operation({ namespace }),
  render: () => emptyAnswer,
});

/** Clients parse the body also where nothing was there to drop, so it is never 204. */
export const dropNamespaceRoute = jsonRoute((deps) => dropNamespace(deps, dropTable(deps)), {
  methods: ['POST'],
  path: '/v1/namespace/:id/drop',
  target: namespaceTarget,
  action: 'DropNamespace',
  body: DropBody,
  audit: ({ behavior }) => ({ mode: parseChoice(behavior, 'behavior', dropBehaviors) }),
  answer: async (operation, { target: namespace, body }, { access, context }) => {
    let droppedTables = 0;
    await operation({
      namespace,
      mode: parseChoice(body.mode, 'mode', dropModes),
      behavior: parseChoice(body.behavior, 'behavior', dropBehaviors),
      mayDrop: (item) => {
        if ('namespace' in item) return access.allows('DropNamespace', { kind: 'namespace', path: item.namespace });
        return access.allows('DropTable', { kind: 'table', table: item.table });
      },
      dropped: () => {
        droppedTables += 1;
        context.note({ droppedTables });
      },
    });
    return {};
  },
});
