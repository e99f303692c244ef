/** Several operations as one version, or nothing. */
import type { ErrorName } from '#src/kernel/errors.ts';
import { bodyOf, multipart, type Part, part } from '#test/http/multipart-body.ts';
import { type Condition, conditionSql } from '../conditions.ts';
import { faultsOfNone, faultsOfSource } from '../merge-faults.ts';
import type { Counts } from '../merge-rows.ts';
import type { Random } from '../random.ts';
import { mergeInto } from '../random-steps.ts';
import { type MergeStep, mergeParameters, type Source } from '../steps.ts';
import { allCounts, changeBranch } from './branch-change.ts';
import {
  type Alteration,
  addColumns,
  alterColumns,
  dropColumns,
  type MetadataUpdate,
  type NewColumn,
  updateFieldMetadata,
} from './column-changes.ts';
import {
  addColumnsBody,
  alterColumnsBody,
  randomAlterations,
  randomDrops,
  randomMetadata,
  randomNewColumns,
} from './column-operations.ts';
import { randomPredicate, randomTarget, stateAt } from './drawing.ts';
import { type Keyed, type Operation, type Target, tableRequest } from './operation.ts';
import { append, type Change, deleteRows, merge, noCounts, type RowsUpdate, updateRows } from './row-changes.ts';
import { randomUpdate, streamOf, updateBody } from './row-operations.ts';
import type { State } from './world.ts';

type Member =
  | { readonly operation: 'insert'; readonly source: Source }
  | { readonly operation: 'merge_insert'; readonly merge: MergeStep }
  | ({ readonly operation: 'update' } & RowsUpdate)
  | { readonly operation: 'delete'; readonly predicate: Condition }
  | { readonly operation: 'add_columns'; readonly columns: readonly NewColumn[] }
  | { readonly operation: 'alter_columns'; readonly alterations: readonly Alteration[] }
  | { readonly operation: 'drop_columns'; readonly columns: readonly string[] }
  | { readonly operation: 'update_field_metadata'; readonly updates: readonly MetadataUpdate[] };

/** One of them, on what those before it leave. */
function changeBy(state: State, member: Member): Change {
  switch (member.operation) {
    case 'insert':
      return append(state, member.source);
    case 'merge_insert':
      return merge(state, member.merge);
    case 'update':
      return updateRows(state, member);
    case 'delete':
      return deleteRows(state, member.predicate);
    case 'add_columns':
      return addColumns(state, member.columns);
    case 'alter_columns':
      return alterColumns(state, member.alterations);
    case 'drop_columns':
      return dropColumns(state, member.columns);
    case 'update_field_metadata':
      return updateFieldMetadata(state, member.updates);
  }
}

interface TransactStep extends Target, Keyed {
  readonly kind: 'transact';
  readonly members: readonly Member[];
}

interface Together {
  readonly change: Change;
  readonly each: readonly Counts[];
}

/** Where several are at fault, any of them may be named. */
function changeByAll(state: State, members: readonly Member[]): Together {
  const refusals: ErrorName[] = [];
  const each: Counts[] = [];
  let now = state;
  let isVersion = false;
  for (const member of members) {
    const change = changeBy(now, member);
    if ('refused' in change) refusals.push(...change.refused);
    else {
      now = change.state;
      isVersion ||= change.isVersion;
      each.push(change.counts);
    }
  }
  const change = refusals.length > 0 ? { refused: refusals } : { state: now, counts: noCounts, isVersion };
  return { change, each };
}

const nameOf = (index: number): string => `op${index}`;

function partsOf(member: Member, index: number): { readonly described: Part; readonly source?: Part } {
  const { operation } = member;
  const rows = `rows${index}`;
  const described = (fields: object): Part => part(nameOf(index), { operation, ...fields });
  switch (member.operation) {
    case 'insert':
      return { described: described({ source: rows }), source: part(rows, streamOf(member.source)) };
    case 'merge_insert': {
      const fields = mergeFields(member.merge);
      return { described: described({ source: rows, ...fields }), source: part(rows, streamOf(member.merge.source)) };
    }
    case 'update':
      return { described: described(updateBody(member)) };
    case 'delete':
      return { described: described({ predicate: conditionSql(member.predicate) }) };
    case 'add_columns':
      return { described: described(addColumnsBody(member.columns)) };
    case 'alter_columns':
      return { described: described(alterColumnsBody(member.alterations)) };
    case 'drop_columns':
      return { described: described({ columns: member.columns }) };
    case 'update_field_metadata':
      return { described: described({ updates: member.updates }) };
  }
}

/** The parameters of the route, as fields. */
function mergeFields(step: MergeStep): object {
  const query = new URLSearchParams(mergeParameters(step));
  const on = query.getAll('on');
  query.delete('on');
  query.delete('branch');
  const fields = [...query].map(([name, text]) => [name, name.endsWith('_filt') ? text : text === 'true']);
  return { on, ...Object.fromEntries(fields) };
}

function randomMember(random: Random, state: State): Member {
  const merged = () => mergeInto(random, state, { table: '' });
  return random.weighted<() => Member>([
    [25, () => ({ operation: 'merge_insert', merge: merged() })],
    [15, () => ({ operation: 'insert', source: merged().source })],
    [15, () => ({ operation: 'delete', predicate: randomPredicate(random, state) })],
    [20, () => ({ operation: 'update', ...(randomUpdate(random, state) ?? neverTrue) })],
    [8, () => ({ operation: 'add_columns', columns: randomNewColumns(random, state) })],
    [8, () => ({ operation: 'alter_columns', alterations: randomAlterations(random, state) })],
    [5, () => ({ operation: 'drop_columns', columns: randomDrops(random, state) })],
    [5, () => ({ operation: 'update_field_metadata', updates: randomMetadata(random, state) })],
  ])();
}

const neverTrue: RowsUpdate = { updates: [['nothing', { op: 'literal', value: null }]] };

function faultsOfMember(member: Member): ErrorName[] {
  if (member.operation === 'merge_insert') return faultsOfSource(member.merge);
  return member.operation === 'insert' ? faultsOfNone(member.source.columns) : [];
}

export const transact: Operation<TransactStep> = {
  expect(world, step) {
    let each: readonly Counts[] = [];
    const change = (state: State): Change => {
      const together = changeByAll(state, step.members);
      each = together.each;
      return together.change;
    };
    const fieldsOf = () => ({
      operations: each.map((counts, i) => ({
        name: nameOf(i),
        operation: step.members[i]?.operation,
        ...allCounts(counts),
      })),
    });
    const faults = step.members.flatMap(faultsOfMember);
    return changeBranch(world, step, change, { fieldsOf, faults });
  },
  request(_, { table, branch, members }) {
    const parts = members.map(partsOf);
    const body = bodyOf([...parts.map(({ described }) => described), ...parts.flatMap(({ source }) => source ?? [])]);
    const query = branch === undefined ? '' : `?${new URLSearchParams({ branch })}`;
    return { ...tableRequest(table, `transact${query}`, body), headers: multipart };
  },
  /** Each is drawn for what those before it leave. */
  draw(random, world) {
    const target = randomTarget(random, world);
    let state = stateAt(random, world, target);
    const members = Array.from({ length: 1 + random.int(5) }, () => {
      const member = randomMember(random, state);
      const change = changeBy(state, member);
      const isFaulty = 'refused' in change && random.chance(70);
      const kept: Member = isFaulty ? { operation: 'delete', predicate: never } : member;
      if (!('refused' in change)) state = change.state;
      return kept;
    });
    return { kind: 'transact', ...target, members };
  },
};

const never: Condition = { op: '=', left: { literal: 1n }, right: { literal: 2n } };
