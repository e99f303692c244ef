/** What a history breaks of the promises, in words; nothing if it keeps them. */
import { type Action, checkRegister, type Operation } from './linearizable.ts';
import type { Change, History, Read, Write } from './operation.ts';

export function violationsOf(history: History): readonly string[] {
  return [
    ...history.reads.flatMap(rowViolations),
    ...registersOf(history).flatMap((register) => registerViolations(history, register)),
    ...versionViolations(history.writes),
    ...snapshotViolations(history),
    ...appendViolations(history),
  ];
}

/** One row per key (P2), and each write as a whole (P1). */
function rowViolations(read: Read): readonly string[] {
  return read.keys.flatMap((register) => {
    const rows = read.rows.filter((row) => row.register === register);
    if (rows.length === 0) return [];
    const [first, second] = rows.toSorted((a, b) => a.half - b.half);
    if (rows.length === 2 && first?.half === 0 && second?.half === 1 && first.value === second.value) return [];
    return [`${read.client} at ${read.endedMs.toFixed(1)} read of register ${register}: ${JSON.stringify(rows)}`];
  });
}

const registersOf = ({ writes, reads }: History): number[] => [
  ...new Set([...writes.flatMap(({ change }) => keysOf(change)), ...reads.flatMap(({ keys }) => keys)]),
];

const keysOf = (change: Change): readonly number[] => (change.kind === 'append' ? [] : change.keys);

/** Nothing acknowledged is lost, nothing refused is there, nothing is applied twice, and reads are fresh (P3, P4, P6, P11). */
function registerViolations({ writes, reads }: History, register: number): readonly string[] {
  const operations = [
    ...writes.filter(({ change }) => keysOf(change).includes(register)).flatMap(operationOfWrite),
    ...reads.filter(({ keys }) => keys.includes(register)).map((read) => operationOfRead(read, register)),
  ];
  const verdict = checkRegister(operations);
  switch (verdict.kind) {
    case 'linearizable':
      return [];
    case 'undecided':
      return [`register ${register}: no order was found for its ${operations.length} operations in the steps allowed`];
    case 'not linearizable':
      return [`register ${register} is not linearizable: ${verdict.found}`];
  }
}

function operationOfWrite(write: Write): readonly Operation[] {
  const { client, beganMs, endedMs, change, outcome } = write;
  if (change.kind === 'append' || outcome.kind === 'nothing written') return [];
  const isDone = outcome.kind === 'done';
  const wasApplied = isDone ? extremeOf(outcome.count, change.keys.length) : undefined;
  return [
    {
      label: client,
      beganMs,
      endedMs: isDone ? endedMs : Number.POSITIVE_INFINITY,
      action: actionOf(change, wasApplied),
      version: madeVersion(write) ? versionOf(write) : undefined,
    },
  ];
}

/** A count says of each register what happened to it if it is of both rows of all or of none. */
function extremeOf(count: number, registers: number): boolean | undefined {
  if (count === 0) return false;
  return count === 2 * registers ? true : undefined;
}

function actionOf(change: Exclude<Change, { kind: 'append' }>, wasApplied: boolean | undefined): Action {
  switch (change.kind) {
    case 'upsert':
    case 'insert':
      return { kind: change.kind, value: change.value, wasAbsent: wasApplied };
    case 'replace':
      return { kind: 'replace', expected: change.expected, value: change.value, wasExpected: wasApplied };
    case 'delete':
      return { kind: 'delete', wasAbsent: wasApplied === undefined ? undefined : !wasApplied };
  }
}

const operationOfRead = ({ client, beganMs, endedMs, rows }: Read, register: number): Operation => ({
  label: client,
  beganMs,
  endedMs,
  action: { kind: 'read', found: rows.find((row) => row.register === register)?.value },
});

/** Whether a write made a version of its own or shared one: an upsert always does, the others only where they found something. */
const madeVersion = ({ change, outcome }: Write): boolean =>
  outcome.kind === 'done' && (outcome.count > 0 || change.kind === 'upsert' || change.kind === 'append');

const versionOf = ({ outcome }: Write): number => (outcome.kind === 'done' ? outcome.version : 0);

/** What was acknowledged before another write began has a smaller version (P5). */
function versionViolations(writes: readonly Write[]): readonly string[] {
  const made = writes.filter(madeVersion);
  const ended = made.toSorted((a, b) => a.endedMs - b.endedMs);
  let at = 0;
  let newest: Write | undefined;
  return made
    .toSorted((a, b) => a.beganMs - b.beganMs)
    .flatMap((write) => {
      for (; at < ended.length && (ended[at] as Write).endedMs < write.beganMs; at++) {
        if (newest === undefined || versionOf(ended[at] as Write) > versionOf(newest)) newest = ended[at];
      }
      if (newest === undefined || versionOf(newest) < versionOf(write)) return [];
      const [before, after] = [newest, write].map((each) => `${each.client} as version ${versionOf(each)}`);
      return [`${before} was acknowledged before ${after} began`];
    });
}

/** A read sees one whole version: all writes up to the newest whose value it found (P11). */
function snapshotViolations({ writes, reads }: History): readonly string[] {
  const made = writes.filter(madeVersion);
  const versionOfValue = new Map(
    made.flatMap((write) => (write.change.kind === 'delete' ? [] : [[write.change.value, versionOf(write)] as const])),
  );
  const newest = new Map<number, readonly number[]>(
    registersOf({ writes, reads, appended: [] }).map((register) => [
      register,
      made.filter((write) => changedAll(write) && keysOf(write.change).includes(register)).map(versionOf),
    ]),
  );
  return reads.flatMap((read) => {
    const found = new Map(read.rows.map(({ register, value }) => [register, versionOfValue.get(value)]));
    const seen = Math.max(0, ...[...found.values()].map((version) => version ?? 0));
    return read.keys.flatMap((register) => {
      const own = found.has(register) ? found.get(register) : 0;
      const missed = own === undefined ? undefined : newest.get(register)?.find((each) => each > own && each <= seen);
      if (missed === undefined || (own === 0 && mayBeDeleted(writes, register))) return [];
      return [
        `${read.client} at ${read.endedMs.toFixed(1)} saw version ${seen}, and of register ${register} version ${own}, not ${missed}`,
      ];
    });
  });
}

/** Whether it is known of each of its registers that this write changed it. */
const changedAll = ({ change, outcome }: Write): boolean =>
  change.kind === 'upsert' ||
  (change.kind !== 'append' && outcome.kind === 'done' && outcome.count === 2 * change.keys.length);

const mayBeDeleted = (writes: readonly Write[], register: number): boolean =>
  writes.some(
    ({ change, outcome }) =>
      change.kind === 'delete' && outcome.kind !== 'nothing written' && change.keys.includes(register),
  );

/** A row without a key is there once if it was acknowledged, never if it was refused, and never twice (P3, P6). */
const appendViolations = ({ writes, appended }: History): readonly string[] =>
  appended.flatMap((reading) => appendViolationsIn(reading, writes));

function appendViolationsIn(appended: readonly string[], writes: readonly Write[]): readonly string[] {
  const found = Map.groupBy(appended, (value) => value);
  const appends = writes.flatMap(({ client, change, outcome }) =>
    change.kind === 'append' ? [{ client, value: change.value, outcome }] : [],
  );
  const known = new Set(appends.map(({ value }) => value));
  const strangers = [...found.keys()].filter((value) => !known.has(value));
  return [
    ...strangers.map((value) => `nobody appended ${value}`),
    ...appends.flatMap(({ client, value, outcome }) => {
      const rows = found.get(value)?.length ?? 0;
      const isRight = outcome.kind === 'unknown' ? rows <= 1 : rows === (outcome.kind === 'done' ? 1 : 0);
      return isRight ? [] : [`${client} appended ${value}, ${outcome.kind}, and ${rows} rows are there`];
    }),
  ];
}
