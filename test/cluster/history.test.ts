/** The checker of histories finds what it is there for, and nothing in a history that is right. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Random } from '#test/model/random.ts';
import { violationsOf } from './history/check-history.ts';
import { type Action, checkRegister, type Operation } from './history/linearizable.ts';
import type { Change, History, Outcome, Read, Value, Write } from './history/operation.ts';

const never = Number.POSITIVE_INFINITY;

const at = (beganMs: number, endedMs: number, action: Action, version?: number): Operation => ({
  label: `at ${beganMs}`,
  beganMs,
  endedMs,
  action,
  version,
});
const write = (beganMs: number, endedMs: number, value: string, version?: number): Operation =>
  at(beganMs, endedMs, { kind: 'upsert', value }, version);
const read = (beganMs: number, endedMs: number, found: Value): Operation =>
  at(beganMs, endedMs, { kind: 'read', found });
const replace = (beganMs: number, endedMs: number, [expected, value]: [string, string], wasExpected?: boolean) =>
  at(beganMs, endedMs, { kind: 'replace', expected, value, wasExpected });

const accepted: Readonly<Record<string, readonly Operation[]>> = {
  'no operation': [],
  'a register that nobody wrote is absent': [read(0, 1, undefined)],
  'what was written is read': [write(0, 1, 'a'), read(2, 3, 'a'), write(4, 5, 'b'), read(6, 7, 'b')],
  'a read beside a write finds the old value': [write(0, 1, 'a'), write(2, 9, 'b'), read(3, 4, 'a'), read(5, 6, 'b')],
  'a read beside a write finds the new value': [write(0, 9, 'a'), read(1, 2, 'a')],
  'two writes at once come in either order': [write(0, 5, 'a'), write(0, 5, 'b'), read(6, 7, 'a')],
  'an unknown write is never seen': [write(0, 1, 'a'), write(2, never, 'b'), read(3, 4, 'a'), read(9, 10, 'a')],
  'an unknown write takes effect much later': [
    write(0, 1, 'a'),
    write(2, never, 'b'),
    read(3, 4, 'a'),
    write(5, 6, 'c'),
    read(7, 8, 'c'),
    read(9, 10, 'b'),
  ],
  'several unknown writes explain what is read': [
    write(0, never, 'a'),
    write(0, never, 'b'),
    write(0, never, 'c'),
    read(1, 2, undefined),
    read(3, 4, 'b'),
    read(5, 6, 'a'),
  ],
  'a replacement finds what an unknown write left': [
    write(0, 1, 'a'),
    write(2, never, 'b'),
    replace(3, 4, ['b', 'c'], true),
    read(5, 6, 'c'),
  ],
  'one of two replacements at once wins': [
    write(0, 1, 'a'),
    replace(2, 5, ['a', 'b'], true),
    replace(2, 5, ['a', 'c'], false),
    read(6, 7, 'b'),
  ],
  'of two inserts at once one inserts': [
    at(0, 5, { kind: 'insert', value: 'a', wasAbsent: false }),
    at(0, 5, { kind: 'insert', value: 'b', wasAbsent: true }),
    read(6, 7, 'b'),
  ],
  'a deleted register is absent, and inserted again': [
    write(0, 1, 'a'),
    at(2, 3, { kind: 'delete', wasAbsent: false }),
    read(4, 5, undefined),
    at(6, 7, { kind: 'upsert', value: 'b', wasAbsent: true }),
  ],
  'writes at once in the order of their versions': [write(0, 5, 'a', 3), write(0, 5, 'b', 2), read(6, 7, 'a')],
};

const refused: Readonly<Record<string, readonly Operation[]>> = {
  'an acknowledged write is lost': [write(0, 1, 'a'), read(2, 3, undefined)],
  'a read is stale': [write(0, 1, 'a'), write(2, 3, 'b'), read(4, 5, 'a')],
  'a value comes back': [write(0, 1, 'a'), write(2, 9, 'b'), read(3, 4, 'b'), read(5, 6, 'a')],
  'a value comes from nowhere': [write(0, 1, 'a'), read(2, 3, 'z')],
  'an unknown write takes effect twice': [
    write(0, never, 'a'),
    read(1, 2, 'a'),
    write(3, 4, 'b'),
    read(5, 6, 'b'),
    read(7, 8, 'a'),
  ],
  'a write is applied again after another': [write(0, 1, 'a'), write(2, 3, 'b'), read(4, 5, 'b'), read(6, 7, 'a')],
  'an unknown write is seen before it began': [read(0, 1, 'a'), write(2, never, 'a')],
  'two readers disagree on the order': [
    write(0, 9, 'a'),
    write(0, 9, 'b'),
    read(1, 2, 'a'),
    read(3, 4, 'b'),
    read(5, 6, 'a'),
  ],
  'two replacements of one value both won': [
    write(0, 1, 'a'),
    replace(2, 5, ['a', 'b'], true),
    replace(2, 5, ['a', 'c'], true),
  ],
  'a replacement won where nothing like it was': [write(0, 1, 'a'), replace(2, 3, ['z', 'b'], true)],
  'two inserts both inserted': [
    at(0, 5, { kind: 'insert', value: 'a', wasAbsent: true }),
    at(0, 5, { kind: 'insert', value: 'b', wasAbsent: true }),
  ],
  'an update was counted as an insert': [write(0, 1, 'a'), at(2, 3, { kind: 'upsert', value: 'b', wasAbsent: true })],
  'a deleted register is still read': [write(0, 1, 'a'), at(2, 3, { kind: 'delete' }), read(4, 5, 'a')],
  'what is read has the smaller version': [write(0, 5, 'a', 3), write(0, 5, 'b', 2), read(6, 7, 'b')],
};

describe('the search for an order of what happened to one register', () => {
  for (const [title, operations] of Object.entries(accepted)) {
    test(`finds one where ${title}`, () => assert.deepEqual(checkRegister(operations), { kind: 'linearizable' }));
  }
  for (const [title, operations] of Object.entries(refused)) {
    test(`finds none where ${title}`, () => assert.equal(checkRegister(operations).kind, 'not linearizable'));
  }

  test('finds one exactly where trying all orders does, in 3,000 small histories', () => {
    const random = new Random(1);
    const seen = { linearizable: 0, 'not linearizable': 0, undecided: 0 };
    for (let round = 0; round < 3_000; round++) {
      const operations = Array.from({ length: 2 + random.int(5) }, (_, index) => randomOperation(random, index));
      const { kind } = checkRegister(operations);
      assert.equal(kind === 'linearizable', hasOrder(operations, undefined), JSON.stringify(operations));
      seen[kind] += 1;
    }
    assert.ok(Math.min(seen.linearizable, seen['not linearizable']) > 500, JSON.stringify(seen));
  });

  test('takes a history of 5,000 operations by 16 clients, a tenth of them unknown', () => {
    const operations = simulated(new Random(2), 5_000);
    assert.deepEqual(checkRegister(operations), { kind: 'linearizable' });
    const last = Math.max(...operations.map(({ endedMs }) => endedMs).filter(Number.isFinite));
    const stale = read(last + 1, last + 2, operations.find(({ action }) => action.kind === 'read')?.label);
    assert.equal(checkRegister([...operations, stale]).kind, 'not linearizable');
  });

  test('gives up after the steps it was allowed', () => {
    assert.equal(checkRegister(simulated(new Random(3), 50), 10).kind, 'undecided');
  });
});

function randomOperation(random: Random, index: number): Operation {
  const beganMs = random.int(10);
  const value = (): string => `v${random.int(4)}`;
  const isUnknown = random.chance(20);
  const flag = isUnknown ? undefined : random.pick([true, false, undefined]);
  const action = random.weighted<Action>([
    [3, { kind: 'upsert', value: `v${index}`, wasAbsent: flag === true ? undefined : flag }],
    [3, { kind: 'read', found: random.chance(20) ? undefined : value() }],
    [1, { kind: 'insert', value: `v${index}`, wasAbsent: flag }],
    [1, { kind: 'replace', expected: value(), value: `v${index}`, wasExpected: flag }],
    [1, { kind: 'delete', wasAbsent: flag }],
  ]);
  return at(beganMs, isUnknown && action.kind !== 'read' ? never : beganMs + random.int(8), action);
}

/** Whether any order explains the operations, those that nobody knows of left out or not. */
function hasOrder(left: readonly Operation[], value: Value): boolean {
  if (left.every(({ endedMs }) => endedMs === never)) return true;
  return left.some((next) => {
    const others = left.filter((each) => each !== next);
    if (others.some(({ endedMs }) => endedMs < next.beganMs)) return false;
    const after = plainEffect(next.action, value);
    return after !== 'impossible' && hasOrder(others, after.value);
  });
}

function plainEffect(action: Action, value: Value): { readonly value: Value } | 'impossible' {
  const was = value === undefined;
  if (action.kind === 'read') return action.found === value ? { value } : 'impossible';
  if (action.kind === 'replace') {
    const hit = value === action.expected;
    if (action.wasExpected !== undefined && action.wasExpected !== hit) return 'impossible';
    return { value: hit ? action.value : value };
  }
  if (action.wasAbsent !== undefined && action.wasAbsent !== was) return 'impossible';
  if (action.kind === 'delete') return { value: undefined };
  return { value: action.kind === 'upsert' || was ? action.value : value };
}

/** What 16 clients of a true register see: each operation takes effect at a moment within its time. A label is the value. */
function simulated(random: Random, count: number): Operation[] {
  const free = Array.from({ length: 16 }, () => 0);
  const plans = Array.from({ length: count }, (_, index) => {
    const client = random.int(16);
    const beganMs = (free[client] as number) + random.int(20);
    const momentMs = beganMs + random.int(50) + index / count;
    const endedMs = momentMs + random.int(50);
    free[client] = endedMs + 1;
    return { index, beganMs, momentMs, endedMs, isRead: random.chance(50), isLost: random.chance(20) };
  });
  let value: Value;
  return plans
    .toSorted((a, b) => a.momentMs - b.momentMs)
    .map(({ index, beganMs, endedMs, isRead, isLost }) => {
      if (isRead) return { ...read(beganMs, endedMs, value), label: value ?? '' };
      value = `v${index}`;
      return write(beganMs, isLost ? never : endedMs, value);
    });
}

const done = (version: number, count: number): Outcome => ({ kind: 'done', version, count });
const unknown: Outcome = { kind: 'unknown' };

const asked = (beganMs: number, change: Change, outcome: Outcome): Write => ({
  client: 'ann',
  beganMs,
  endedMs: beganMs + 1,
  change,
  outcome,
});
const upsert = (beganMs: number, keys: number[], value: string, outcome: Outcome): Write =>
  asked(beganMs, { kind: 'upsert', keys, value }, outcome);
const answered = (beganMs: number, values: Readonly<Record<number, string>>, keys = [1, 2]): Read => ({
  client: 'bob',
  beganMs,
  endedMs: beganMs + 1,
  keys,
  rows: Object.entries(values).flatMap(([register, value]) =>
    ([0, 1] as const).map((half) => ({ register: Number(register), half, value })),
  ),
});
const history = (parts: Partial<History>): History => ({ writes: [], reads: [], appended: [], ...parts });

describe('the checker of histories', () => {
  const writes = [upsert(0, [1, 2], 'a', done(2, 4)), upsert(2, [1], 'b', done(3, 0)), upsert(4, [2], 'c', done(4, 0))];

  const right: Readonly<Record<string, History>> = {
    'writes and reads that follow one another': history({ writes, reads: [answered(6, { 1: 'b', 2: 'c' })] }),
    'a read beside a write that sees it or not': history({
      writes,
      reads: [answered(4, { 1: 'b', 2: 'a' }), answered(4.5, { 1: 'b', 2: 'c' })],
    }),
    'a write that nobody knows of and that is there': history({
      writes: [...writes, upsert(6, [1, 2], 'd', unknown)],
      reads: [answered(8, { 1: 'd', 2: 'd' })],
    }),
    'a shared version of two writes at once': history({
      writes: [upsert(0, [1], 'a', done(2, 2)), upsert(0, [2], 'b', done(2, 2))],
      reads: [answered(5, { 1: 'a', 2: 'b' })],
    }),
    'a row without a key that may be there': history({
      writes: [
        asked(0, { kind: 'append', value: 'x' }, done(2, 1)),
        asked(2, { kind: 'append', value: 'y' }, unknown),
        asked(4, { kind: 'append', value: 'z' }, unknown),
        asked(6, { kind: 'append', value: 'w' }, { kind: 'nothing written' }),
      ],
      appended: [['x', 'y']],
    }),
    'a replacement that found another value': history({
      writes: [...writes, asked(6, { kind: 'replace', keys: [1], expected: 'a', value: 'd' }, done(4, 0))],
      reads: [answered(8, { 1: 'b', 2: 'c' })],
    }),
  };
  for (const [title, given] of Object.entries(right)) {
    test(`takes ${title}`, () => assert.deepEqual(violationsOf(given), []));
  }

  const half = { register: 1, half: 0, value: 'b' } as const;
  const wrong: Readonly<Record<string, readonly [RegExp, History]>> = {
    'a lost row': [/register 2 is not linearizable/, history({ writes, reads: [answered(6, { 1: 'b' })] })],
    'a write of which nothing was said to be written, and that is there': [
      /register 1 is not linearizable/,
      history({
        writes: [...writes, upsert(6, [1], 'd', { kind: 'nothing written' })],
        reads: [answered(8, { 1: 'd', 2: 'c' })],
      }),
    ],
    'a key with two rows': [
      /of register 1: /,
      history({ writes, reads: [{ ...answered(6, { 1: 'b', 2: 'c' }), rows: [half, half, { ...half, half: 1 }] }] }),
    ],
    'a write that is there by half': [
      /of register 1: /,
      history({ writes, reads: [{ ...answered(6, {}, [1]), rows: [half, { ...half, half: 1, value: 'a' }] }] }),
    ],
    'a version that goes back': [
      /as version 3 was acknowledged before ann as version 3 began/,
      history({ writes: [upsert(0, [1], 'a', done(3, 2)), upsert(2, [2], 'b', done(3, 2))] }),
    ],
    'a read of two versions': [
      /saw version 4, and of register 1 version 2, not 3/,
      history({
        writes: writes.map((each) => ({ ...each, endedMs: 10 })),
        reads: [answered(6, { 1: 'a', 2: 'c' })],
      }),
    ],
    'an inserted row that was counted twice': [
      /register 1 is not linearizable/,
      history({ writes: [upsert(0, [1], 'a', done(2, 2)), upsert(2, [1], 'b', done(3, 2))] }),
    ],
    'a row without a key that is there twice': [
      /2 rows are there/,
      history({ writes: [asked(0, { kind: 'append', value: 'x' }, unknown)], appended: [['x', 'x']] }),
    ],
    'a row without a key that is lost': [
      /0 rows are there/,
      history({ writes: [asked(0, { kind: 'append', value: 'x' }, done(2, 1))], appended: [[]] }),
    ],
    'a row without a key that nobody appended': [/nobody appended x/, history({ appended: [['x']] })],
  };
  for (const [title, [pattern, given]] of Object.entries(wrong)) {
    test(`finds ${title}`, () => assert.match(violationsOf(given).join('\n'), pattern));
  }
});
