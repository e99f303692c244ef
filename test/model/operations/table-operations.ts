/** Tables as names: what makes, moves and forgets them. */
import { main } from '../reference.ts';
import { createdTable, randomNewName, randomTable, randomTexts, tableNames } from './drawing.ts';
import { type Operation, refused, tableRequest } from './operation.ts';
import { hasNamespace, newestOf, newTable, parentOf, put, type Texts, withTable } from './world.ts';

interface DeclareStep {
  readonly kind: 'declare';
  readonly table: string;
  readonly properties: Texts;
}

const declare: Operation<DeclareStep> = {
  expect(world, { table, properties }) {
    if (!hasNamespace(world, parentOf(table))) return refused('NamespaceNotFound');
    if (world.tables.has(table)) return refused('TableAlreadyExists');
    return {
      answer: { properties },
      world: ({ location }) => withTable(world, table, { state: 'declared', location: String(location), properties }),
    };
  },
  request: (_, { table, properties }) => tableRequest(table, 'declare', { properties }),
  draw: (random, world) => ({ kind: 'declare', table: randomNewName(random, world), properties: randomTexts(random) }),
};

interface GoneStep {
  readonly kind: 'drop' | 'deregister';
  readonly table: string;
}

const gone = (kind: GoneStep['kind']): Operation<GoneStep> => ({
  expect(world, { table: name }) {
    const table = world.tables.get(name);
    if (table === undefined) return refused('TableNotFound');
    const { location, properties } = table;
    const left = withTable(world, name, undefined);
    const forgotten = kind === 'drop' ? world.forgotten : put(world.forgotten, name, table);
    return { answer: { location, properties }, world: () => ({ ...left, forgotten }) };
  },
  request: (_, { table }) => tableRequest(table, kind),
  draw: (random, world) => ({ kind, table: randomTable(random, world) }),
});

interface RegisterStep {
  readonly kind: 'register';
  readonly table: string;
  /** The name that the deregistered table had. */
  readonly from: string;
  readonly mode: 'create' | 'overwrite';
  readonly properties: Texts;
}

/** All that the table had is there again: versions, branches, tags. Only the properties are of the registration. */
const register: Operation<RegisterStep> = {
  expect(world, { table: name, from, mode, properties }) {
    const existing = world.tables.get(name);
    const found = world.forgotten.get(from);
    if (existing !== undefined && mode === 'create') return refused('TableAlreadyExists', 'InvalidInput');
    if (found?.state !== 'created') {
      return refused('InvalidInput', ...(hasNamespace(world, parentOf(name)) ? [] : (['NamespaceNotFound'] as const)));
    }
    if (!hasNamespace(world, parentOf(name))) return refused('NamespaceNotFound');
    const forgotten = put(world.forgotten, from, undefined);
    return {
      answer: { location: found.location, properties },
      world: () => ({ ...withTable(world, name, { ...found, properties }), forgotten }),
    };
  },
  request(world, { table, from, mode, properties }) {
    const location = world.forgotten.get(from)?.location ?? `${world.root}/none.lance`;
    return tableRequest(table, 'register', { location, mode, properties });
  },
  draw(random, world) {
    const { forgotten } = world;
    if (forgotten.size === 0 && random.chance(70)) return undefined;
    const from = forgotten.size > 0 ? random.pick([...forgotten.keys()]) : random.pick(tableNames);
    const table = randomNewName(random, world);
    return {
      kind: 'register',
      table,
      from,
      mode: random.pick(['create', 'overwrite']),
      properties: randomTexts(random),
    };
  },
};

interface RenameStep {
  readonly kind: 'rename';
  readonly table: string;
  readonly to: string;
}

const rename: Operation<RenameStep> = {
  expect(world, { table: from, to }) {
    const table = world.tables.get(from);
    if (table === undefined) return refused('TableNotFound');
    if (!hasNamespace(world, parentOf(to))) return refused('NamespaceNotFound');
    if (world.tables.has(to)) return refused('TableAlreadyExists');
    return { answer: {}, world: () => withTable(withTable(world, from, undefined), to, table) };
  },
  request({ root }, { table, to }) {
    const parts = [root, ...to.split('$')];
    return tableRequest(table, 'rename', { new_table_name: parts.at(-1), new_namespace_id: parts.slice(0, -1) });
  },
  draw: (random, world) => ({ kind: 'rename', table: randomTable(random, world), to: randomNewName(random, world) }),
};

interface CloneStep {
  readonly kind: 'clone';
  readonly table: string;
  readonly from: string;
  /** Of main. */
  readonly version?: number | undefined;
  readonly tag?: string | undefined;
}

/** One version, under its number, without tags and branches. */
const clone: Operation<CloneStep> = {
  expect(world, { table: name, from, version: asked, tag }) {
    const source = createdTable(world, from);
    if (asked !== undefined && tag !== undefined) return refused('InvalidInput');
    if (source === undefined) return refused('InvalidInput');
    const existing = world.tables.get(name);
    if (!hasNamespace(world, parentOf(name))) return refused('NamespaceNotFound');
    if (existing?.state === 'created') return refused('TableAlreadyExists');
    const tagged = tag === undefined ? undefined : source.tags.get(tag);
    if (tag !== undefined && tagged === undefined) return refused('TableTagNotFound');
    const branch = source.branches.get(tagged?.branch ?? main)!;
    const version = tagged?.version ?? asked ?? newestOf(branch);
    const state = branch.versions.get(version);
    if (state === undefined) return refused('TableVersionNotFound');
    const properties = existing?.properties ?? {};
    return {
      answer: {},
      world: ({ location }) =>
        withTable(world, name, newTable({ location: String(location), properties }, version, state)),
    };
  },
  request(world, { table, from, version, tag }) {
    const location = world.tables.get(from)?.location ?? `${world.root}/none.lance`;
    return tableRequest(table, 'clone', { source_location: location, source_version: version, source_tag: tag });
  },
  draw(random, world) {
    const from = randomTable(random, world);
    const source = createdTable(world, from);
    const table = randomNewName(random, world);
    const tags = [...(source?.tags.keys() ?? []), 'none'];
    const versions = [...(source?.branches.get(main)?.versions.keys() ?? []), 999];
    if (random.chance(30)) return { kind: 'clone', table, from };
    return random.chance(50)
      ? { kind: 'clone', table, from, tag: random.pick(tags) }
      : { kind: 'clone', table, from, version: random.pick(versions) };
  },
};

export const tableOperations = {
  declare,
  drop: gone('drop'),
  deregister: gone('deregister'),
  register,
  rename,
  clone,
};
