/**
 * Decides whether the operations on one register can have happened one after the other, each at a moment between its beginning and
 * its end: the search of Wing and Gong with the memory of Lowe. Registers are checked one by one, since a history is linearizable
 * if each of its registers is (Herlihy and Wing). No library for JavaScript does this.
 */
import type { Value } from './operation.ts';

/** What happened to one register. A result that is left out is not known, and then any will do. */
export type Action =
  | { readonly kind: 'read'; readonly found: Value }
  | { readonly kind: 'upsert' | 'insert'; readonly value: string; readonly wasAbsent?: boolean | undefined }
  | {
      readonly kind: 'replace';
      readonly expected: string;
      readonly value: string;
      readonly wasExpected?: boolean | undefined;
    }
  | { readonly kind: 'delete'; readonly wasAbsent?: boolean | undefined };

export interface Operation {
  readonly label: string;
  readonly beganMs: number;
  /** Infinity for a write whose outcome nobody knows: it may happen at any time after it began, or never. */
  readonly endedMs: number;
  readonly action: Action;
  /** Of a write that made one: versions rise in the order of what happened. */
  readonly version?: number | undefined;
}

export type Verdict =
  | { readonly kind: 'linearizable' }
  /** `found` says how far an order was found at most, and what could not follow. */
  | { readonly kind: 'not linearizable'; readonly found: string }
  /** The search took more steps than it was allowed. */
  | { readonly kind: 'undecided' };

const never = Number.POSITIVE_INFINITY;

interface State {
  readonly value: Value;
  readonly version: number;
}

interface Choice {
  readonly operation: number;
  readonly before: State;
  /** What was not tried in its place yet. */
  readonly others: number[];
}

export function checkRegister(operations: readonly Operation[], maxSteps = 2_000_000): Verdict {
  return new Search(operations).run(maxSteps);
}

class Search {
  readonly #operations: readonly Operation[];
  /** One character for 15 operations, so that the set of those that happened is the key of a map. */
  readonly #happened: Uint16Array;
  readonly #tried = new Set<string>();
  /** How many operations that are left must find a value; as long as there are any, no other value may take its place. */
  readonly #stillFound = new Map<string, number>();
  /** How many at the beginning of `#operations` are known to have happened; those that nobody knows of follow. */
  readonly #known: number;
  #first = 0;
  #awaited: number;
  #deepest: { readonly happened: number; readonly state: State; readonly stuck: readonly string[] } | undefined;

  constructor(operations: readonly Operation[]) {
    const inOrder = operations.toSorted((a, b) => a.beganMs - b.beganMs);
    this.#operations = [...inOrder.filter(isKnown), ...inOrder.filter((each) => !isKnown(each))];
    this.#happened = new Uint16Array(Math.ceil(operations.length / 15));
    this.#known = operations.filter(isKnown).length;
    this.#awaited = this.#known;
    for (const operation of operations) this.#expect(operation, 1);
  }

  run(maxSteps: number): Verdict {
    const chosen: Choice[] = [];
    let state: State = { value: undefined, version: 0 };
    let candidates = this.#candidates(state);
    for (let steps = 0; this.#awaited > 0; steps++) {
      if (steps > maxSteps) return { kind: 'undecided' };
      const next = this.#next(candidates, state);
      if (next !== undefined) {
        chosen.push({ operation: next.operation, before: state, others: candidates });
        state = next.after;
        candidates = this.#candidates(state);
        continue;
      }
      const last = chosen.pop();
      if (last === undefined) return { kind: 'not linearizable', found: this.#explain() };
      this.#set(last.operation, false);
      state = last.before;
      candidates = last.others;
    }
    return { kind: 'linearizable' };
  }

  /** The first of the candidates that leads to a state in which the search was not yet. */
  #next(candidates: number[], state: State): { operation: number; after: State } | undefined {
    for (let operation = candidates.pop(); operation !== undefined; operation = candidates.pop()) {
      const after = apply(this.#at(operation), state);
      if (after === undefined) continue;
      this.#set(operation, true);
      const key = `${String.fromCharCode(...this.#happened)} ${after.value ?? ''}`;
      const isLost = after.value !== state.value && (this.#stillFound.get(state.value ?? '') ?? 0) > 0;
      if (!isLost && !this.#tried.has(key)) {
        this.#tried.add(key);
        return { operation, after };
      }
      this.#set(operation, false);
    }
    return undefined;
  }

  /**
   * Those that may come next: they began before any other that is left had ended. They are tried from the end: first what ended
   * first, and last what may never have happened.
   */
  #candidates(state: State): number[] {
    let firstEndMs = never;
    const open: number[] = [];
    while (this.#has(this.#first)) this.#first += 1;
    for (let at = this.#first; at < this.#known && this.#at(at).beganMs <= firstEndMs; at++) {
      if (this.#has(at)) continue;
      firstEndMs = Math.min(firstEndMs, this.#at(at).endedMs);
      open.push(at);
    }
    const idle = open.find((at) => isIdle(this.#at(at), state));
    if (idle !== undefined) return [idle];
    const unknown: number[] = [];
    for (let at = this.#known; at < this.#operations.length && this.#at(at).beganMs <= firstEndMs; at++) {
      if (!this.#has(at)) unknown.push(at);
    }
    this.#remember(state, open);
    open.sort((a, b) => this.#at(b).endedMs - this.#at(a).endedMs);
    const dependent = [...open, ...unknown.filter((at) => dependsOnState(this.#at(at).action))];
    return [...unknown.filter((at) => this.#isNeeded(at, dependent, state)), ...open];
  }

  /**
   * Whether an operation that may never have happened makes a difference to one that can come right after it. If not, the order
   * without it, or with it later, is as good; and trying all of them everywhere would take for ever.
   */
  #isNeeded(unknown: number, dependent: readonly number[], state: State): boolean {
    const after = apply(this.#at(unknown), state);
    if (after === undefined) return false;
    return dependent.some((at) => at !== unknown && isChangedBy(this.#at(at), state, after));
  }

  #at(operation: number): Operation {
    return this.#operations[operation] as Operation;
  }

  #has(operation: number): boolean {
    return ((this.#happened[Math.floor(operation / 15)] ?? 0) & (1 << (operation % 15))) !== 0;
  }

  #set(operation: number, happened: boolean): void {
    this.#happened[Math.floor(operation / 15)]! ^= 1 << (operation % 15);
    if (!happened) this.#first = Math.min(this.#first, operation);
    if (operation < this.#known) this.#awaited += happened ? -1 : 1;
    this.#expect(this.#at(operation), happened ? -1 : 1);
  }

  #expect(operation: Operation, change: 1 | -1): void {
    const value = isKnown(operation) ? foundBy(operation.action) : undefined;
    if (value !== undefined) this.#stillFound.set(value, (this.#stillFound.get(value) ?? 0) + change);
  }

  #remember(state: State, open: readonly number[]): void {
    const happened = this.#operations.length - this.#awaited;
    if (this.#deepest !== undefined && this.#deepest.happened >= happened) return;
    this.#deepest = { happened, state, stuck: open.map((at) => describe(this.#at(at))) };
  }

  #explain(): string {
    const { state, stuck } = this.#deepest ?? { state: undefined, stuck: [] };
    return `after the value ${state?.value ?? '(absent)'} of version ${state?.version} none can follow of: ${stuck.join('; ')}`;
  }
}

const isKnown = ({ endedMs }: Operation): boolean => endedMs < never;

const describe = ({ label, action, beganMs, endedMs, version }: Operation): string =>
  `${label} ${JSON.stringify(action)} from ${beganMs.toFixed(1)} to ${endedMs.toFixed(1)}${version === undefined ? '' : ` as version ${version}`}`;

/** Undefined if it cannot have happened in this state with the result that it had. */
function apply({ action, version }: Operation, state: State): State | undefined {
  if (version !== undefined && version < state.version) return undefined;
  const after = valueAfter(action, state.value);
  if (after === undefined) return undefined;
  return { value: after.value, version: version ?? state.version };
}

/** The value that was certainly there when it happened. */
function foundBy(action: Action): Value {
  if (action.kind === 'read') return action.found;
  return action.kind === 'replace' && action.wasExpected === true ? action.expected : undefined;
}

/** Whether it can come now and changed nothing, whenever it came: then it may as well come now. */
function isIdle(operation: Operation, state: State): boolean {
  const { action } = operation;
  if (apply(operation, state) === undefined) return false;
  switch (action.kind) {
    case 'read':
      return true;
    case 'upsert':
      return false;
    case 'insert':
      return action.wasAbsent === false;
    case 'replace':
      return action.wasExpected === false;
    case 'delete':
      return action.wasAbsent === true;
  }
}

/** Even if its result is not known. */
const dependsOnState = ({ kind }: Action): boolean => kind === 'insert' || kind === 'replace';

/** Whether it can follow on `after`, and does something else there than it does on `before`. */
function isChangedBy(operation: Operation, before: State, after: State): boolean {
  const second = apply(operation, after);
  if (second === undefined) return false;
  const first = apply(operation, before);
  if (first === undefined) return true;
  const isIdleAfter = second.value === after.value;
  if (isIdleAfter && (!isKnown(operation) || first.value === before.value)) return false;
  return first.value !== second.value;
}

function valueAfter(action: Action, value: Value): { readonly value: Value } | undefined {
  if (!resultFits(action, value)) return undefined;
  switch (action.kind) {
    case 'read':
      return { value };
    case 'upsert':
      return { value: action.value };
    case 'insert':
      return { value: value ?? action.value };
    case 'replace':
      return { value: value === action.expected ? action.value : value };
    case 'delete':
      return { value: undefined };
  }
}

function resultFits(action: Action, value: Value): boolean {
  if (action.kind === 'read') return action.found === value;
  if (action.kind === 'replace')
    return (action.wasExpected ?? value === action.expected) === (value === action.expected);
  return (action.wasAbsent ?? value === undefined) === (value === undefined);
}
