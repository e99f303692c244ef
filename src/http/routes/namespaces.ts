import Type from 'typebox';
import type { CreateNamespace } from '../../operations/namespaces/create-namespace.ts';
import type { DescribeNamespace, NamespaceExists } from '../../operations/namespaces/describe-namespace.ts';
import type { DropNamespace } from '../../operations/namespaces/drop-namespace.ts';
import type { ListNamespaces } from '../../operations/namespaces/list-namespaces.ts';
import { createModes, dropBehaviors, dropModes, parseChoice } from '../../wire/create-parameters.ts';
import { StringMap } from '../../wire/json-body.ts';
import { readPage } from '../../wire/query-parameters.ts';
import { jsonRoute } from '../json-route.ts';
import { emptyAnswer, namespaceTarget, type Route } from '../route.ts';

const Nothing = Type.Object({});
const CreateBody = Type.Object({ mode: Type.Optional(Type.String()), properties: Type.Optional(StringMap) });
const DropBody = Type.Object({ mode: Type.Optional(Type.String()), behavior: Type.Optional(Type.String()) });

export const createNamespaceRoute = (createNamespace: CreateNamespace): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/namespace/:id/create',
    target: namespaceTarget,
    action: 'CreateNamespace',
    body: CreateBody,
    audit: ({ mode }) => ({ mode: parseChoice(mode, 'mode', createModes) }),
    answer: async ({ target: namespace, body }) => {
      const mode = parseChoice(body.mode, 'mode', createModes);
      return { properties: await createNamespace({ namespace, mode, properties: body.properties ?? {} }) };
    },
  });

export const listNamespacesRoute = (listNamespaces: ListNamespaces): Route =>
  jsonRoute({
    methods: ['GET'],
    path: '/v1/namespace/:id/list',
    target: namespaceTarget,
    action: 'ListNamespaces',
    body: Nothing,
    answer: async ({ target: parent, query, allows }) => {
      const { items, next } = await listNamespaces({
        parent,
        page: readPage(query),
        visible: (path) => allows('DescribeNamespace', { kind: 'namespace', path }),
      });
      return { namespaces: items, page_token: next };
    },
  });

export const describeNamespaceRoute = (describeNamespace: DescribeNamespace): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/namespace/:id/describe',
    target: namespaceTarget,
    action: 'DescribeNamespace',
    body: Nothing,
    answer: async ({ target: namespace }) => ({ properties: await describeNamespace({ namespace }) }),
  });

export const namespaceExistsRoute = (namespaceExists: NamespaceExists): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/namespace/:id/exists',
    target: namespaceTarget,
    action: 'NamespaceExists',
    body: Nothing,
    answer: ({ target: namespace }) => namespaceExists({ namespace }),
    render: () => emptyAnswer,
  });

/** Clients parse the body also where nothing was there to drop, so it is never 204. */
export const dropNamespaceRoute = (dropNamespace: DropNamespace): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/namespace/:id/drop',
    target: namespaceTarget,
    action: 'DropNamespace',
    body: DropBody,
    audit: ({ behavior }) => ({ mode: parseChoice(behavior, 'behavior', dropBehaviors) }),
    answer: async ({ target: namespace, body, allows, note }) => {
      let droppedTables = 0;
      await dropNamespace({
        namespace,
        mode: parseChoice(body.mode, 'mode', dropModes),
        behavior: parseChoice(body.behavior, 'behavior', dropBehaviors),
        mayDrop: (item) => {
          if ('namespace' in item) return allows('DropNamespace', { kind: 'namespace', path: item.namespace });
          return allows('DropTable', { kind: 'table', table: item.table });
        },
        dropped: () => {
          droppedTables += 1;
          note({ droppedTables });
        },
      });
      return {};
    },
  });
