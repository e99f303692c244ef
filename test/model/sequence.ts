/** Runs sequences of steps on the service and a reference side by side; tells a failure so that it can be replayed. */
import { crc32 } from 'node:zlib';
import { Random } from './random.ts';
import { toJson } from './values.ts';

/** A model as sequences of its steps are run. `Step` is plain data. */
export interface Play<World, Step> {
  readonly begin: World;
  draw(random: Random, world: World): Step;
  /** Does the step, and throws unless all is as the reference has it. `looks` decides what is looked at. */
  perform(world: World, step: Step, looks: Random): Promise<World>;
}

/** The same after a step, whatever steps were left out before it. */
const looksAfter = (step: unknown): Random => new Random(crc32(toJson(step)));

export interface SequenceFailure<Step> {
  readonly steps: readonly Step[];
  readonly error: unknown;
}

/** Undefined where all went as expected. */
export async function runRandom<World, Step>(
  play: Play<World, Step>,
  { seed, steps: count }: { readonly seed: number; readonly steps: number },
): Promise<SequenceFailure<Step> | undefined> {
  const random = new Random(seed);
  const steps: Step[] = [];
  let world = play.begin;
  for (let i = 0; i < count; i++) {
    const step = play.draw(random, world);
    steps.push(step);
    try {
      world = await play.perform(world, step, looksAfter(step));
    } catch (error) {
      return { steps, error };
    }
  }
  return undefined;
}

/** The same steps again, or some of them: the reference knows what each must do wherever it stands. */
export async function replay<World, Step>(
  play: Play<World, Step>,
  steps: readonly Step[],
): Promise<SequenceFailure<Step> | undefined> {
  let world = play.begin;
  for (const [i, step] of steps.entries()) {
    try {
      world = await play.perform(world, step, looksAfter(step));
    } catch (error) {
      return { steps: steps.slice(0, i + 1), error };
    }
  }
  return undefined;
}

/**
 * Fewer steps that fail at the same last one: ever smaller parts are left out, and stay out where the rest fails as well.
 * `fresh` makes another one to play each time. At most `stepsLeft` steps are replayed.
 */
export async function shrink<World, Step extends { readonly table?: string | undefined }>(
  failure: SequenceFailure<Step>,
  fresh: () => Promise<Play<World, Step>>,
  stepsLeft: number,
): Promise<SequenceFailure<Step>> {
  const last = failure.steps.at(-1);
  let smallest = failure;
  let left = stepsLeft;
  const attempt = async (steps: readonly Step[]): Promise<void> => {
    if (left < steps.length) return;
    left -= steps.length;
    const smaller = await replay(await fresh(), steps);
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

export const failureText = <Step>(
  { steps, error }: SequenceFailure<Step>,
  textOf: (step: Step) => string,
  lastError: string | undefined,
): string =>
  [
    ...steps.map((step, i) => `${i + 1}. ${textOf(step)}`),
    '',
    error instanceof Error ? (error.stack ?? error.message) : String(error),
    `The last error in the service's log: ${lastError ?? 'none'}`,
    '',
    'To replay: put the next line into a file and name it in LANCEGATE_MODEL_REPLAY.',
    toJson(steps),
  ].join('\n');
