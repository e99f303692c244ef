import Type from 'typebox';
import type { AnswerOf, NamespaceCatalog, NamespaceRecord } from '../../catalog/port.ts';
import { namespaceAlreadyExists } from '../../catalog/refusals.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { namespaceTarget } from '../../endpoint/route.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { NamespacePath, Properties } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { choiceOf, createModes, parseChoice } from '../../wire/choices.ts';
import { StringMap } from '../../wire/json-body.ts';
import { findNamespace, NamespaceProperties } from './describe-namespace.ts';

interface CreateNamespaceCommand {
  readonly namespace: NamespacePath;
  /** `exist_ok` answers the existing properties; `overwrite` replaces them and keeps what is inside. */
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
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
    const existing = await catalog.findNamespace(namespace);
    const answer = answeredBy(answered, propertiesOf);
    if (existing === undefined && mode === 'create') {
      return propertiesOf(await catalog.createNamespace(namespace, properties, answer));
    }
    if (existing === undefined) return createOrFind(catalog, namespace, properties, requireDescribe);
    switch (mode) {
      case 'create':
        throw namespaceAlreadyExists(namespace);
      case 'exist_ok':
        requireDescribe();
        return existing.properties;
      case 'overwrite':
        return propertiesOf(await catalog.updateNamespace(namespace, properties, answer));
    }
  };

const propertiesOf = ({ properties }: NamespaceRecord): Properties => properties;

/** Where two create one namespace at once, the later finds it there. Only mode `create` minds. */
async function createOrFind(
  catalog: NamespaceCatalog,
  namespace: NamespacePath,
  properties: Properties,
  requireDescribe: () => void,
): Promise<Properties> {
  try {
    return (await catalog.createNamespace(namespace, properties)).properties;
  } catch (error) {
    const lostRace = error instanceof LancegateError && error.kind === 'NamespaceAlreadyExists';
    if (!lostRace) throw error;
    requireDescribe();
    return (await findNamespace(catalog, namespace)).properties;
  }
}

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
