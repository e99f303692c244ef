import Type from 'typebox';
import { answeredOnce } from '../../idempotency/idempotency.ts';
import { invalidInput } from '../../kernel/errors.ts';
import {
  createNamespace,
  describeNamespace,
  dropNamespace,
  listNamespaces,
  namespaceExists,
} from '../../operations/namespaces.ts';
import type { OperationDeps } from '../../operations/operations.ts';
import { dropTable } from '../../operations/tables/drop-table.ts';
import { choiceOf, createModes, dropBehaviors, dropModes, parseChoice } from '../../wire/create-parameters.ts';
import { nextPage, pageFields, StringMap } from '../../wire/json-body.ts';
import { readPage } from '../../wire/query-parameters.ts';
import { jsonRoute, Nothing, onceAnswer } from '../json-route.ts';
import { emptyAnswer, namespaceTarget } from '../route.ts';

const CreateBody = Type.Object({ mode: choiceOf(createModes), properties: Type.Optional(StringMap) });
const DropBody = Type.Object({ mode: choiceOf(dropModes), behavior: choiceOf(dropBehaviors) });

const Properties = Type.Object({ properties: StringMap });
const Namespaces = Type.Object({ namespaces: Type.Array(Type.String()), ...nextPage });

export const createNamespaceRoute = jsonRoute(answeredOnce('create_namespace', createNamespace), {
  methods: ['POST'],
  path: '/v1/namespace/:id/create',
  target: namespaceTarget,
  keyedBy: 'Idempotency-Key',
  action: 'CreateNamespace',
  summary: 'Creates a namespace',
  answers: Properties,
  body: CreateBody,
  audit: ({ mode }) => ({ mode: parseChoice(mode, 'mode', createModes) }),
  answer: async (operation, { target: namespace, body, idempotency }, input) => {
    const mode = parseChoice(body.mode, 'mode', createModes);
    const requireDescribe = () => input.access.require('DescribeNamespace', { kind: 'namespace', path: namespace });
    const command = { namespace, mode, properties: body.properties ?? {}, requireDescribe, idempotency };
    return { properties: onceAnswer(input, await operation(command, input.scope)) };
  },
});

export const listNamespacesRoute = jsonRoute(listNamespaces, {
  methods: ['GET'],
  path: '/v1/namespace/:id/list',
  target: namespaceTarget,
  action: 'ListNamespaces',
  summary: 'Lists the namespaces of a namespace',
  query: pageFields,
  answers: Namespaces,
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
  summary: 'Shows the properties of a namespace',
  answers: Properties,
  body: Nothing,
  answer: async (operation, { target: namespace }) => ({ properties: await operation({ namespace }) }),
});

export const namespaceExistsRoute = jsonRoute(namespaceExists, {
  methods: ['POST'],
  path: '/v1/namespace/:id/exists',
  target: namespaceTarget,
  action: 'NamespaceExists',
  summary: 'Says whether a namespace exists',
  answers: undefined,
  body: Nothing,
  answer: (operation, { target: namespace }) => operation({ namespace }),
  render: () => emptyAnswer,
});

const dropTreeOf = (deps: OperationDeps) => dropNamespace(deps, dropTable(deps));

/** Clients parse the body also where nothing was there to drop, so it is never 204. */
export const dropNamespaceRoute = jsonRoute(answeredOnce('drop_namespace', dropTreeOf), {
  methods: ['POST'],
  path: '/v1/namespace/:id/drop',
  target: namespaceTarget,
  keyedBy: 'Idempotency-Key',
  action: 'DropNamespace',
  summary: 'Drops a namespace',
  answers: Nothing,
  body: DropBody,
  audit: ({ behavior }) => ({ mode: parseChoice(behavior, 'behavior', dropBehaviors) }),
  answer: async (operation, { target: namespace, body, idempotency }, input) => {
    const { access, context, database } = input;
    if (database.shownNamespace(namespace).length === 0) throw invalidInput('The root namespace cannot be dropped.');
    let droppedTables = 0;
    const command: Parameters<typeof operation>[0] = {
      namespace,
      idempotency,
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
    };
    onceAnswer(input, await operation(command, input.scope));
    return {};
  },
});
