/**
 * One client that sends requests of one kind, each once the one before is answered, and knows what each of them must have left. So
 * at a crash one request at the most has no answer, and there are two states that the tables may be in.
 */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Random } from '#test/model/random.ts';
import type { Answer, Asked, CrashService, Json } from './crash-service.ts';

/** How a request can be told to be a repetition. `none`: the operation itself says that it is done. */
type Repetition = 'Idempotency-Key' | 'x-request-id' | 'none';

export interface Step<State> {
  readonly name: string;
  readonly asked: Asked;
  /** What `observe` gives when it is done. */
  readonly after: State;
  /** What a crash may leave as well: of an operation that is several. */
  readonly between?: readonly State[];
  readonly repetition: Repetition;
  /** What a repetition of what is done may be answered, besides 200. */
  readonly whenDone?: readonly number[];
}

export interface Turn<State> {
  /** Of the step, from 1; no two steps of a table have the same. */
  readonly n: number;
  readonly state: State;
  /** The answers so far, the latest last, and what was there then. */
  readonly history: readonly { readonly answer: Json; readonly state: State }[];
  readonly random: Random;
}

export interface Subject<State> {
  /** Of the subject and of its table. */
  readonly name: string;
  /** Whether upserts may come meanwhile, whose rows `observe` does not see. */
  readonly takesUpserts: boolean;
  /** Makes the table of this name. */
  start(service: CrashService, table: string): Promise<State>;
  next(table: string, turn: Turn<State>): Step<State>;
  observe(service: CrashService, table: string): Promise<State>;
  /** What must hold of any state, beside the state itself. */
  verify?(service: CrashService, table: string): Promise<void>;
}

/** What became of the steps of all subjects, by their names. */
export class Tally {
  readonly #counts = new Map<string, number>();

  count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  of(what: string): number {
    return this.#counts.get(what) ?? 0;
  }

  lines(): readonly string[] {
    return [...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([what, count]) => `${what}: ${count}`);
  }
}

/** Refusals that say that nothing was written and that the request may be sent again. */
const isRefusedForNow = ({ status, body }: Answer): boolean => status === 503 || (status === 409 && body.code === 14);

const isUnknown = ({ status, body }: Answer): boolean => status === 500 && /is not known/.test(String(body.error));

/** A client that waited long has the number of a job instead, which may fail. */
async function endsWell(service: CrashService, { body: { job_id: id } }: Answer): Promise<boolean> {
  if (typeof id !== 'string') return true;
  for (;;) {
    const { job_state: state } = await service.get({ path: '/v1/jobs/describe', body: { job_id: id } });
    if (state !== 'IN_PROGRESS') return state === 'DONE';
    await pause(100);
  }
}

/** Without what is of the one request. */
const resultOf = ({ body: { context: _, ...result } }: Answer): Json => result;

interface Parts<State> {
  readonly subject: Subject<State>;
  readonly table: string;
  readonly random: Random;
  readonly tally: Tally;
  /** Whether a refusal is held to its word, and an outcome that is not known leaves the step as a crash does. By default not. */
  readonly doubtsRefusals?: boolean;
}

export class Sequence<State = unknown> {
  readonly #parts: Parts<State>;
  readonly #history: { readonly answer: Json; readonly state: State }[] = [];
  #n = 0;
  #state: State | undefined;
  /** Sent, and not answered yet. */
  #open: Step<State> | undefined;
  #latest: { readonly step: Step<State>; readonly answer: Answer } | undefined;

  constructor(parts: Parts<State>) {
    this.#parts = parts;
  }

  get table(): string {
    return this.#parts.table;
  }

  get takesUpserts(): boolean {
    return this.#parts.subject.takesUpserts;
  }

  async start(service: CrashService): Promise<void> {
    this.#state = await this.#parts.subject.start(service, this.table);
  }

  /** Until `isOver` or the service is gone. Returns after each answer. */
  async run(service: CrashService, isOver: () => boolean, answered: () => void): Promise<void> {
    while (!isOver()) {
      if (!(await this.#takeStep(service, isOver))) return;
      answered();
    }
  }

  /** Whether there was an answer. */
  async #takeStep(service: CrashService, isOver: () => boolean = () => false): Promise<boolean> {
    const step = this.#open ?? this.#nextStep();
    this.#open = step;
    const answer = await service.ask(step.asked);
    if (answer === undefined) {
      if (!isOver()) throw new Error(`${step.name} got no answer`);
      return false;
    }
    const { tally, doubtsRefusals = false } = this.#parts;
    if (isRefusedForNow(answer)) {
      tally.count(`${step.name} refused for now`);
      if (doubtsRefusals) await this.#requireState(service, [this.#state!], `${step.name} refused`);
      return true;
    }
    if (doubtsRefusals && answer.status === 500) {
      tally.count(`${step.name} of unknown outcome`);
      return false;
    }
    assert.equal(answer.status, 200, `${this.table} ${step.name}: ${JSON.stringify(answer.body)}`);
    if (doubtsRefusals && !(await endsWell(service, answer))) {
      tally.count(`${step.name} failed as a job`);
      await this.#requireState(service, [this.#state!], `${step.name} failed`);
      return true;
    }
    tally.count(`${step.name} answered`);
    this.#done(step, answer);
    return true;
  }

  #nextStep(): Step<State> {
    this.#n += 1;
    const { subject, random } = this.#parts;
    const step = subject.next(this.table, { n: this.#n, state: this.#state!, history: this.#history, random });
    return { ...step, asked: { ...step.asked, headers: { ...step.asked.headers, ...this.#keyOf(step) } } };
  }

  #keyOf({ name, repetition }: Step<State>): Readonly<Record<string, string>> {
    const id = `${this.table} ${this.#n} ${name}`.replaceAll(/[ ,]+/g, '-');
    return repetition === 'Idempotency-Key' ? { 'idempotency-key': id } : { 'x-request-id': id };
  }

  #done(step: Step<State>, answer: Answer): void {
    this.#open = undefined;
    this.#state = step.after;
    // Once its job is done, a repetition gets what the job did.
    this.#latest = 'job_id' in answer.body ? undefined : { step, answer };
    this.#history.push({ answer: answer.body, state: step.after });
  }

  /** Of a service that goes on after another process died, or of the next one after a crash. */
  async check(service: CrashService): Promise<void> {
    await this.#parts.subject.verify?.(service, this.table);
    if (this.#open === undefined) await this.#requireState(service, [this.#state!], 'all was answered');
    else await this.#repeatOpen(service, this.#open);
    await this.#repeatLatest(service);
    await this.#goOn(service);
  }

  /** What was acknowledged gets its first answer again, and is not done twice. */
  async #repeatLatest(service: CrashService): Promise<void> {
    const { step, answer } = this.#latest ?? {};
    if (step === undefined || answer === undefined || step.repetition === 'none') return;
    const again = await service.ask(step.asked);
    const what = `${this.table} ${step.name} again`;
    assert.deepEqual([again?.status, again && resultOf(again)], [200, resultOf(answer)], what);
    assert.equal(again?.isReplay, true, what);
    await this.#requireState(service, [this.#state!], what);
    this.#parts.tally.count(`${step.name} answered, and repeated`);
  }

  /** It is there or it is not; a repetition does it once, or says that it cannot know. */
  async #repeatOpen(service: CrashService, step: Step<State>): Promise<void> {
    const { tally } = this.#parts;
    const before = this.#state!;
    const found = await this.#requireState(service, [before, step.after, ...(step.between ?? [])], step.name);
    const isDone = isDeepStrictEqual(found, step.after);
    const again = await service.ask(step.asked);
    if (again?.status === 200) await endsWell(service, again);
    const what = `${this.table} ${step.name} cut short, ${isDone ? 'done' : 'not done'}, again: ${JSON.stringify(again)}`;
    tally.count(
      `${step.name} cut short, ${isDone ? 'done' : 'not done'}: ${again?.status} ${again?.isReplay ? 'replayed' : ''}`,
    );
    if (again !== undefined && isUnknown(again) && step.repetition !== 'none') {
      await this.#requireState(service, [found], what);
      this.#open = undefined;
      this.#state = found;
      return;
    }
    const isAccepted = again?.status === 200 || (isDone && step.whenDone?.includes(again?.status ?? 0) === true);
    assert.ok(isAccepted, what);
    if (again?.isReplay === true) assert.ok(isDone, what);
    await this.#requireState(service, [step.after], what);
    if (again !== undefined) this.#done(step, again);
  }

  async #goOn(service: CrashService): Promise<void> {
    do await this.#takeStep(service);
    while (this.#open !== undefined);
    await this.#requireState(service, [this.#state!], 'it goes on');
    await this.#parts.subject.verify?.(service, this.table);
  }

  async #requireState(service: CrashService, allowed: readonly State[], what: string): Promise<State> {
    const found = await this.#parts.subject.observe(service, this.table);
    const text = () => `${this.table}, ${what}: found ${JSON.stringify(found)}, allowed ${JSON.stringify(allowed)}`;
    assert.ok(
      allowed.some((state) => isDeepStrictEqual(found, state)),
      text(),
    );
    return found;
  }
}
