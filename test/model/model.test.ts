/**
 * Random sequences of create, merge, declare and branch against the reference. By hand:
 *   LANCEGATE_MODEL_SEED=7 LANCEGATE_MODEL_STEPS=500 node --test test/model/model.test.ts
 * A seed determines its sequence, so the seed in a failure is enough to see it again.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { compareTable, settle } from './compare.ts';
import { randomStep } from './random-steps.ts';
import { expect, type World } from './reference.ts';
import { failureText, type Play, replay, runRandom, type SequenceFailure, shrink } from './sequence.ts';
import { type Step, stepText } from './steps.ts';
import { Subject } from './subject.ts';
import { fromJson } from './values.ts';

const { LANCEGATE_MODEL_SEED, LANCEGATE_MODEL_STEPS, LANCEGATE_MODEL_REPLAY } = process.env;
const seeds = LANCEGATE_MODEL_SEED === undefined ? [1, 2, 3] : LANCEGATE_MODEL_SEED.split(',').map(Number);
const steps = Number(LANCEGATE_MODEL_STEPS ?? 40);

/** What the engine said to an internal error is in the log alone. */
const lastError = ({ log }: TestService): string | undefined =>
  log.findLast((line) => line.includes('"level":"error"'));

/** About a minute of replaying. */
const shrinkingSteps = 2_000;

const playOn = (subject: Subject): Play<World, Step> => ({
  begin: new Map(),
  draw: randomStep,
  async perform(world, step, looks) {
    const next = settle(world, expect(world, step), await subject.apply(step));
    await compareTable(subject, next, step, looks);
    return next;
  },
});

describe('the service does what the reference model says, step by step', () => {
  let service: TestService;
  const cleanings: (() => void | Promise<void>)[] = [];
  before(async () => {
    service = await startTestService((clean) => cleanings.push(clean), {
      AUTO_MAINTENANCE: 'false', // its commits are versions that no step made
    });
  });
  after(async () => {
    for (const clean of cleanings.reverse()) await clean();
  });

  let sequences = 0;
  const fresh = async (hasRowIds = false) => playOn(await Subject.open(service, `sequence-${++sequences}`, hasRowIds));

  async function requireNone(failure: SequenceFailure<Step> | undefined, ofSeed: typeof fresh): Promise<void> {
    if (failure !== undefined)
      assert.fail(failureText(await shrink(failure, ofSeed, shrinkingSteps), stepText, lastError(service)));
  }

  if (LANCEGATE_MODEL_REPLAY !== undefined) {
    test(`the steps of ${LANCEGATE_MODEL_REPLAY}`, async () => {
      const recorded = fromJson(readFileSync(LANCEGATE_MODEL_REPLAY, 'utf8')) as Step[];
      const failure = await replay(await fresh(), recorded);
      if (failure !== undefined) assert.fail(failureText(failure, stepText, lastError(service)));
    });
    return;
  }

  // Tables whose rows have ids of their own do the same.
  for (const seed of seeds) {
    const ofSeed = () => fresh(seed % 2 === 0);
    test(`seed ${seed}: ${steps} random steps leave rows, counts and versions as the reference has them (P2, P4, P5)`, async (t) => {
      t.diagnostic(`LANCEGATE_MODEL_SEED=${seed} LANCEGATE_MODEL_STEPS=${steps}`);
      await requireNone(await runRandom(await ofSeed(), { seed, steps }), ofSeed);
    });
  }
});
