/** Runs sequences of steps on the service and the reference side by side; tells a failure so that it can be replayed. */
import { compareTable, settle } from './compare.ts';
import { Random } from './random.ts';
import { randomStep } from './random-steps.ts';
import { expect, type World } from './reference.ts';
import { type Step, stepText } from './steps.ts';
import type { Subject } from './subject.ts';
import { toJson } from './values.ts';

interface SequenceRequest {
  readonly subject: Subject;
  readonly seed: number;
  readonly steps: number;
}

export interface SequenceFailure {
  readonly steps: readonly Step[];
  readonly error: unknown;
}

/** Undefined where all went as expected. */
export async function runRandom({
  subject,
  seed,
  steps: count,
}: SequenceRequest): Promise<SequenceFailure | undefined> {
  const random = new Random(seed);
  const steps: Step[] = [];
  let world: World = new Map();
  for (let i = 0; i < count; i++) {
    const step = randomStep(random, world);
    steps.push(step);
    try {
      world = await perform(subject, world, step, i);
    } catch (error) {
      return { steps, error };
    }
  }
  return undefined;
}

/** The same steps again, or some of them: the reference knows what each must do wherever it stands. */
export async function replay(subject: Subject, steps: readonly Step[]): Promise<SequenceFailure | undefined> {
  let world: World = new Map();
  for (const [i, step] of steps.entries()) {
    try {
      world = await perform(subject, world, step, i);
    } catch (error) {
      return { steps: steps.slice(0, i + 1), error };
    }
  }
  return undefined;
}

async function perform(subject: Subject, world: World, step: Step, at: number): Promise<World> {
  const expected = expect(world, step);
  const next = settle(world, expected, await subject.apply(step));
  await compareTable(subject, next, step, new Random(at));
  return next;
}

/** About a minute of replaying. */
const shrinkingSteps = 2000;

/**
 * Fewer steps that fail at the same last one: ever smaller parts are left out, and stay out where the rest fails as well.
 * `subject` makes a fresh one for each try.
 */
export async function shrink(failure: SequenceFailure, subject: () => Promise<Subject>): Promise<SequenceFailure> {
  const last = failure.steps.at(-1);
  let smallest = failure;
  let stepsLeft = shrinkingSteps;
  const attempt = async (steps: readonly Step[]): Promise<void> => {
    if (stepsLeft < steps.length) return;
    stepsLeft -= steps.length;
    const smaller = await replay(await subject(), steps);
    if (smaller !== undefined && smaller.steps.at(-1) === last) smallest = smaller;
  };
  await attempt(failure.steps.filter(({ table }) => table === last?.table));
  for (let size = Math.ceil(smallest.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let end = smallest.steps.length - 1; end > 0; end -= size) {
      await attempt(smallest.steps.filter((_, i) => i < end - size || i >= end));
    }
  }
  return smallest;
}

export const failureText = ({ steps, error }: SequenceFailure, lastError: string | undefined): string =>
  [
    ...steps.map((step, i) => `${i + 1}. ${stepText(step)}`),
    '',
    error instanceof Error ? (error.stack ?? error.message) : String(error),
    `The last error in the service's log: ${lastError ?? 'none'}`,
    '',
    'To replay: put the next line into a file and name it in LANCEGATE_MODEL_REPLAY.',
    toJson(steps),
  ].join('\n');
