/** Namespaces. A root of its own holds those of a sequence. */
import type { Random } from '../random.ts';
import { namespaceNames, randomTexts } from './drawing.ts';
import { type Operation, type Request, refused } from './operation.ts';
import { hasNamespace, isInside, parentOf, put, type Texts } from './world.ts';

interface CreateNamespaceStep {
  readonly kind: 'create namespace';
  readonly table?: undefined;
  readonly namespace: string;
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
  readonly properties: Texts;
}

const requestOf = (namespace: string, operation: string, body: object): Request => ({
  of: 'namespace',
  id: namespace,
  operation,
  body,
});

export const drawCreateNamespace = (random: Random): CreateNamespaceStep => ({
  kind: 'create namespace',
  namespace: random.pick(namespaceNames),
  mode: random.pick(['create', 'exist_ok', 'overwrite']),
  properties: randomTexts(random),
});

const create: Operation<CreateNamespaceStep> = {
  expect(world, { namespace, mode, properties }) {
    const existing = world.namespaces.get(namespace);
    if (existing === undefined && !hasNamespace(world, parentOf(namespace))) return refused('NamespaceNotFound');
    if (existing !== undefined && mode === 'create') return refused('NamespaceAlreadyExists');
    const kept = mode === 'exist_ok' && existing !== undefined ? existing : properties;
    return {
      answer: { properties: kept },
      world: () => ({ ...world, namespaces: put(world.namespaces, namespace, kept) }),
    };
  },
  request: (_, { namespace, mode, properties }) => requestOf(namespace, 'create', { mode, properties }),
  draw: drawCreateNamespace,
};

interface DropNamespaceStep {
  readonly kind: 'drop namespace';
  readonly table?: undefined;
  readonly namespace: string;
  readonly mode: 'fail' | 'skip';
  readonly behavior: 'restrict' | 'cascade';
}

const drop: Operation<DropNamespaceStep> = {
  expect(world, { namespace, mode, behavior }) {
    if (!world.namespaces.has(namespace)) {
      return mode === 'skip' ? { answer: {}, world: () => world } : refused('NamespaceNotFound');
    }
    const isFull = [...world.tables.keys(), ...world.namespaces.keys()].some((name) => isInside(name, namespace));
    if (isFull && behavior === 'restrict') return refused('NamespaceNotEmpty');
    const left = <Value>(map: ReadonlyMap<string, Value>): ReadonlyMap<string, Value> =>
      new Map([...map].filter(([name]) => name !== namespace && !isInside(name, namespace)));
    return {
      answer: {},
      world: () => ({ ...world, namespaces: left(world.namespaces), tables: left(world.tables) }),
    };
  },
  request: (_, { namespace, mode, behavior }) => requestOf(namespace, 'drop', { mode, behavior }),
  draw: (random) => ({
    kind: 'drop namespace',
    namespace: random.pick(namespaceNames),
    mode: random.pick(['fail', 'skip']),
    behavior: random.pick(['restrict', 'restrict', 'cascade']),
  }),
};

export const namespaceOperations = { 'create namespace': create, 'drop namespace': drop };
