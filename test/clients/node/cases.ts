/**
 * Small programs for a client, run with the service and with an embedded database; what they return must be the same. As in
 * `test/clients/python/harness.py`: a case names the methods that it is about and must call them, a method that no case names
 * fails, and what is refused on purpose says why.
 */
import { isDeepStrictEqual } from 'node:util';

export interface MethodCase<Side> {
  readonly of: readonly string[];
  readonly act: (side: Side) => Promise<unknown>;
  /** Why the service, or the client itself, refuses it. */
  readonly refused?: string;
  /** What the refusal says. */
  readonly says?: RegExp;
  /** The embedded database cannot do it, so the case itself says what must come out. */
  readonly alone?: true;
}

export type ReportLine = readonly [name: string, state: 'ok' | 'refused' | 'FAILS', text: string];

/** A side of a case notes what the case called. */
interface Noting {
  readonly seen: ReadonlySet<string>;
}

interface Trial<Side> {
  readonly one: MethodCase<Side>;
  readonly number: number;
}

export type SideMaker<Side> = (number: number) => Promise<Side>;

interface Outcome {
  readonly value?: unknown;
  readonly error?: Error;
  readonly seen: ReadonlySet<string>;
}

export async function runCases<Side extends Noting>(
  cases: readonly MethodCase<Side>[],
  every: readonly string[],
  ours: SideMaker<Side>,
  theirs: SideMaker<Side>,
): Promise<readonly ReportLine[]> {
  const lines: ReportLine[] = [];
  for (const [number, one] of cases.entries()) {
    const [state, text] = await runCase({ one, number }, ours, theirs);
    lines.push(...one.of.map((name): ReportLine => [name, state, text]));
  }
  const tried = new Set(cases.flatMap(({ of }) => of));
  lines.push(
    ...every.filter((name) => !tried.has(name)).map((name): ReportLine => [name, 'FAILS', 'no case tries it']),
  );
  const known = new Set(every);
  const gone = [...tried].filter((name) => !known.has(name));
  lines.push(...gone.map((name): ReportLine => [name, 'FAILS', 'there is no such method']));
  return oneEach(lines);
}

/** A failure hides what works. */
function oneEach(lines: readonly ReportLine[]): readonly ReportLine[] {
  const worst = new Map<string, ReportLine>();
  for (const line of lines) {
    const known = worst.get(line[0]);
    if (known === undefined || (known[1] !== 'FAILS' && line[1] === 'FAILS')) worst.set(line[0], line);
  }
  return [...worst.values()].sort(([a], [b]) => (a < b ? -1 : 1));
}

type Verdict = readonly [ReportLine[1], string];

async function runCase<Side extends Noting>(
  { one, number }: Trial<Side>,
  ours: SideMaker<Side>,
  theirs: SideMaker<Side>,
): Promise<Verdict> {
  const got = await outcome(one, await ours(number));
  if (got.error === undefined && one.refused !== undefined) {
    return ['FAILS', `it is listed as refused (${one.refused}), and it answered`];
  }
  if (!one.of.every((name) => got.seen.has(name))) {
    return ['FAILS', got.error === undefined ? 'the case does not call it' : said(got.error)];
  }
  if (one.refused !== undefined) return refusal(one, one.refused, got.error);
  if (one.alone) return got.error === undefined ? ['ok', ''] : ['FAILS', said(got.error)];
  const peer = await outcome(one, await theirs(number));
  if (got.error !== undefined) return ['FAILS', said(got.error)];
  if (peer.error !== undefined) return ['FAILS', `the peer: ${said(peer.error)}`];
  const difference = compare(plain(got.value), plain(peer.value), '');
  return difference === undefined ? ['ok', ''] : ['FAILS', difference];
}

async function outcome<Side extends Noting>(one: MethodCase<Side>, side: Side): Promise<Outcome> {
  try {
    return { value: await one.act(side), seen: side.seen };
  } catch (error) {
    return { error: error instanceof Error ? error : new Error(String(error)), seen: side.seen };
  }
}

function refusal<Side>(one: MethodCase<Side>, why: string, error: Error | undefined): Verdict {
  const text = error?.message ?? '';
  if (!(one.says ?? /406|not supported/i).test(text)) return ['FAILS', `it is not refused as it should be: ${text}`];
  return ['refused', `${why} (${/406/.test(text) ? '406' : 'by the client itself'})`];
}

function said(error: Error): string {
  const answer = /(\d{3}) [A-Z][a-zA-Z ]+: .*"instance":"([^"]*)","error":"((?:[^"\\]|\\.)*)"/s.exec(error.message);
  const text = answer === null ? error.message : `${answer[1]} ${answer[2]}: ${answer[3]}`;
  const place = /clients\/node\/([a-z-]+\.ts:\d+)/.exec(error.stack ?? '')?.[1];
  return `${error.name}: ${text.replaceAll(/\s+/g, ' ').slice(0, 240)}${place === undefined ? '' : ` [${place}]`}`;
}

export function expect(truth: unknown, text: string): void {
  if (truth !== true) throw new Error(text);
}

/** That it fails. Both sides then have the same to compare. */
export async function fails(act: () => unknown, says: RegExp = /./s): Promise<string> {
  try {
    await act();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    expect(says.test(text), `the error does not say ${says}: ${text.slice(0, 200)}`);
    return 'failed';
  }
  throw new Error('it should have failed');
}

/** What is compared: objects, arrays and scalars. */
export function plain(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value as unknown as unknown[], plain);
  if (value instanceof Map) return plain(Object.fromEntries(value));
  if ('toArray' in value && typeof value.toArray === 'function') return plain(value.toArray());
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

/** The first difference; numbers may differ by the arithmetic of another engine build. */
export function compare(got: unknown, expected: unknown, at: string): string | undefined {
  if (typeof got === 'number' && typeof expected === 'number') {
    if (Math.abs(got - expected) <= 1e-5 + 1e-4 * Math.abs(expected) || Object.is(got, expected)) return undefined;
  } else if (isObject(got) && isObject(expected) && isDeepStrictEqual(Object.keys(got), Object.keys(expected))) {
    for (const key of Object.keys(got)) {
      const inner = compare(got[key], expected[key], `${at}.${key}`);
      if (inner !== undefined) return inner;
    }
    return undefined;
  } else if (Object.is(got, expected)) {
    return undefined;
  }
  return `${at === '' ? 'it' : at} is ${short(got)}, the peer has ${short(expected)}`;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

function short(value: unknown): string {
  const text =
    JSON.stringify(value, (_key, inner: unknown) => (typeof inner === 'bigint' ? `${inner}n` : inner)) ?? 'undefined';
  return text.length < 160 ? text : `${text.slice(0, 160)}…`;
}

/** The public names of a class, those that it inherits included. */
export function methodsOf(owner: object): readonly string[] {
  const names = new Set<string>();
  for (
    let prototype = owner;
    prototype !== Object.prototype && prototype !== null;
    prototype = Object.getPrototypeOf(prototype)
  ) {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      if (name !== 'constructor' && !name.startsWith('_')) names.add(name);
    }
  }
  return [...names].sort();
}
