/** Versions and what names them: restores, removals, tags and branches. */
import { main } from '../reference.ts';
import { changeBranch, findBranch } from './branch-change.ts';
import { branchAt, branchNames, createdTable, randomTable, randomTarget, randomVersion } from './drawing.ts';
import { branchOf, type Keyed, type Operation, refused, type Target, tableRequest } from './operation.ts';
import { noCounts } from './row-changes.ts';
import { headOf, heldVersions, newestOf, put, type VersionName, withTable } from './world.ts';

interface RestoreStep extends Target, Keyed {
  readonly kind: 'restore';
  readonly version: number;
}

/** Everything of the older version: rows, columns, metadata, indexes. */
const restore: Operation<RestoreStep> = {
  expect(world, step) {
    const found = findBranch(world, step);
    if ('refused' in found) return found;
    const state = found.branch.versions.get(step.version);
    if (state === undefined) return refused('TableVersionNotFound');
    return changeBranch(world, step, () => ({ state, counts: noCounts, isVersion: true }));
  },
  request: (_, { table, branch, version }) => tableRequest(table, 'restore', { branch, version }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind: 'restore', ...target, version: randomVersion(random, branchAt(world, target)) };
  },
};

interface DeleteVersionsStep extends Target {
  readonly kind: 'delete versions';
  readonly from: number;
  /** Left out of the range; -1 leaves the end open. */
  readonly end: number;
}

const deleteVersions: Operation<DeleteVersionsStep> = {
  expect(world, step) {
    const found = findBranch(world, step);
    if ('refused' in found) return found;
    const { table, branch } = found;
    const held = heldVersions(table, branchOf(step));
    const isGone = (version: number) =>
      !held.has(version) && version >= step.from && (step.end === -1 || version < step.end);
    const versions = new Map([...branch.versions].filter(([version]) => !isGone(version)));
    const branches = put(table.branches, branchOf(step), { ...branch, versions });
    return {
      answer: { deleted_count: branch.versions.size - versions.size },
      world: () => withTable(world, step.table, { ...table, branches }),
    };
  },
  request: (_, { table, branch, from, end }) =>
    tableRequest(table, 'version/delete', { branch, ranges: [{ start_version: from, end_version: end }] }),
  draw(random, world) {
    const target = randomTarget(random, world);
    const branch = branchAt(world, target);
    const from = branch === undefined ? 1 : random.pick([...branch.versions.keys()]);
    return { kind: 'delete versions', ...target, from, end: random.chance(20) ? -1 : from + random.int(5) };
  },
};

const tagNames = ['first', 'v1.0', 'keep_me'];

interface TagStep extends Target {
  readonly kind: 'create tag' | 'update tag';
  readonly tag: string;
  readonly version: number;
}

const named = (step: TagStep): VersionName => ({ branch: branchOf(step), version: step.version });

const tagging = (kind: TagStep['kind']): Operation<TagStep> => ({
  expect(world, step) {
    const { table: name, tag, version } = step;
    const found = findBranch(world, step);
    if ('refused' in found && found.refused[0] !== 'TableBranchNotFound') return found;
    const table = createdTable(world, name);
    if (table === undefined) return refused('TableNotFound');
    if (kind === 'create tag' && table.tags.has(tag)) return refused('TableTagAlreadyExists');
    if (kind === 'update tag' && !table.tags.has(tag)) return refused('TableTagNotFound');
    if ('refused' in found) return found;
    if (!found.branch.versions.has(version)) return refused('TableVersionNotFound');
    const tags = put(table.tags, tag, named(step));
    return { answer: {}, world: () => withTable(world, name, { ...table, tags }) };
  },
  request: (_, { table, branch, tag, version }) =>
    tableRequest(table, `tags/${kind === 'create tag' ? 'create' : 'update'}`, { branch, tag, version }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind, ...target, tag: random.pick(tagNames), version: randomVersion(random, branchAt(world, target)) };
  },
});

interface DeleteTagStep {
  readonly kind: 'delete tag';
  readonly table: string;
  readonly tag: string;
}

const deleteTag: Operation<DeleteTagStep> = {
  expect(world, { table: name, tag }) {
    const found = findBranch(world, { table: name });
    if ('refused' in found) return found;
    const { table } = found;
    if (!table.tags.has(tag)) return refused('TableTagNotFound');
    return { answer: {}, world: () => withTable(world, name, { ...table, tags: put(table.tags, tag, undefined) }) };
  },
  request: (_, { table, tag }) => tableRequest(table, 'tags/delete', { tag }),
  draw: (random, world) => ({ kind: 'delete tag', table: randomTable(random, world), tag: random.pick(tagNames) }),
};

interface CreateBranchStep {
  readonly kind: 'create branch';
  readonly table: string;
  readonly name: string;
  readonly fromBranch?: string | undefined;
  readonly fromVersion?: number | undefined;
}

const createBranch: Operation<CreateBranchStep> = {
  expect(world, { table: at, name, fromBranch = main, fromVersion }) {
    const found = findBranch(world, { table: at });
    if ('refused' in found) return found;
    const { table } = found;
    if (table.branches.has(name)) return refused('TableBranchAlreadyExists');
    const parent = table.branches.get(fromBranch);
    if (parent === undefined) return refused('TableBranchNotFound');
    const version = fromVersion ?? newestOf(parent);
    const state = parent.versions.get(version);
    if (state === undefined) return refused('TableVersionNotFound');
    const branch = { parent: { branch: fromBranch, version }, versions: new Map([[version, state]]) };
    const branches = put(table.branches, name, branch);
    return { answer: {}, world: () => withTable(world, at, { ...table, branches }) };
  },
  request: (_, { table, name, fromBranch, fromVersion }) =>
    tableRequest(table, 'branches/create', { name, from_branch: fromBranch, from_version: fromVersion }),
  draw(random, world) {
    const { table, branch: fromBranch } = randomTarget(random, world);
    const parent = branchAt(world, { table, branch: fromBranch });
    const fromVersion = random.chance(40) ? randomVersion(random, parent) : undefined;
    return { kind: 'create branch', table, name: random.pick(branchNames), fromBranch, fromVersion };
  },
};

interface DeleteBranchStep {
  readonly kind: 'delete branch';
  readonly table: string;
  readonly name: string;
}

const deleteBranch: Operation<DeleteBranchStep> = {
  expect(world, { table: at, name }) {
    const found = findBranch(world, { table: at, branch: name });
    if ('refused' in found) return found;
    const { table } = found;
    const isParent = [...table.branches.values()].some(({ parent }) => parent?.branch === name);
    const isTagged = [...table.tags.values()].some(({ branch }) => branch === name);
    if (isParent || isTagged) return refused('InvalidTableState');
    const branches = put(table.branches, name, undefined);
    return { answer: {}, world: () => withTable(world, at, { ...table, branches }) };
  },
  request: (_, { table, name }) => tableRequest(table, 'branches/delete', { name }),
  draw(random, world) {
    const table = randomTable(random, world);
    const taken = [...(createdTable(world, table)?.branches.keys() ?? [])].filter((name) => name !== main);
    const name = random.pick(taken.length > 0 && random.chance(90) ? taken : branchNames);
    return { kind: 'delete branch', table, name };
  },
};

interface MaintainStep {
  readonly kind: 'maintain';
  readonly table: string;
  /** After the retention of all versions has ended. */
  readonly isLater: boolean;
}

/** Compaction makes versions of the same rows; how many is the service's to say, and the comparison learns it. */
const maintain: Operation<MaintainStep> = {
  expect(world, { table: name, isLater }) {
    const found = findBranch(world, { table: name });
    if ('refused' in found) return found;
    const { table } = found;
    if (!isLater) return { answer: {}, world: () => world };
    const branches = new Map(
      [...table.branches].map(([of, branch]) => {
        const held = heldVersions(table, of);
        return [of, { ...branch, versions: new Map([...branch.versions].filter(([version]) => held.has(version))) }];
      }),
    );
    return { answer: {}, world: () => withTable(world, name, { ...table, branches }) };
  },
  request: (_, { table }) => tableRequest(table, 'maintain'),
  draw: (random, world) => ({ kind: 'maintain', table: randomTable(random, world), isLater: random.chance(50) }),
};

/** Same rows under later numbers. */
export const withLaterVersions = <Of extends Parameters<typeof newestOf>[0]>(branch: Of, newest: number): Of => {
  const first = newestOf(branch) + 1;
  const later = Array.from({ length: newest - first + 1 }, (_, i) => [first + i, headOf(branch)] as const);
  return { ...branch, versions: new Map([...branch.versions, ...later]) };
};

export const versionOperations = {
  restore,
  'delete versions': deleteVersions,
  'create tag': tagging('create tag'),
  'update tag': tagging('update tag'),
  'delete tag': deleteTag,
  'create branch': createBranch,
  'delete branch': deleteBranch,
  maintain,
};
