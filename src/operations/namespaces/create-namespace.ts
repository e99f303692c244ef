import Type from 'typebox';
import type { AnswerOf, NamespaceCatalog, NamespaceMode, NamespaceRecord } from '../../catalog/port.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { namespaceTarget } from '../../endpoint/route.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import type { NamespacePath, Properties } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { choiceOf, createModes, parseChoice } from '../../wire/choices.ts';
import { StringMap } from '../../wire/json-body.ts';
import { NamespaceProperties } from './describe-namespace.ts';

interface CreateNamespaceCommand {
  readonly namespace: NamespacePath;
  /** `exist_ok` answers the existing properties. */
  readonly mode: NamespaceMode;
  readonly properties: Properties;
  /** `PermissionDenied`. Called where `exist_ok` finds a namespace: the answer describes one that another principal may have made. */
  readonly requireDescribe: () => void;
}

export const createNamespace =
  ({ catalog }: { readonly catalog: NamespaceCatalog }) =>
  async (
    { namespace, mode, properties, requireDescribe }: CreateNamespaceCommand,
    _scope?: RequestScope,
    answered?: AnswerOf<Properties>,
  ): Promise<Properties> => {
    const made = await catalog.createNamespace(namespace, properties, answeredBy(answered, propertiesOf), mode);
    if (made.isFound) requireDescribe();
    return made.properties;
  };

const propertiesOf = ({ properties }: NamespaceRecord): Properties => properties;

const CreateNamespaceBody = Type.Object({ mode: choiceOf(createModes), properties: Type.Optional(StringMap) });

export const createNamespaceRoute = onceRoute('create_namespace', createNamespace, {
  path: '/v1/namespace/:id/create',
  target: namespaceTarget,
  action: 'CreateNamespace',
  summary: 'Creates a namespace',
  answers: NamespaceProperties,
  body: CreateNamespaceBody,
  audit: ({ mode }) => ({ mode: parseChoice(mode, 'mode', createModes) }),
  answer: async (operation, { target: namespace, body }, input) => {
    const mode = parseChoice(body.mode, 'mode', createModes);
    const requireDescribe = () => input.access.require('DescribeNamespace', { kind: 'namespace', path: namespace });
    return { properties: await operation({ namespace, mode, properties: body.properties ?? {}, requireDescribe }) };
  },
});
