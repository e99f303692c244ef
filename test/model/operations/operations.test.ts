/**
 * Random sequences of all operations against the reference. By hand:
 *   LANCEGATE_MODEL_SEED=7 LANCEGATE_MODEL_STEPS=500 node --test test/model/operations/operations.test.ts
 * A seed determines its sequence, so the seed in a failure is enough to see it again.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { failureText, type Play, replay, runRandom, shrink } from '../sequence.ts';
import { fromJson } from '../values.ts';
import { compareWorld, settle } from './compare.ts';
import { expectStep, randomStep, type Step, stepText } from './operations.ts';
import { OperationsSubject, RetentionClock, retentionMs } from './subject.ts';
import { emptyWorld, type World } from './world.ts';

const { LANCEGATE_MODEL_SEED, LANCEGATE_MODEL_STEPS, LANCEGATE_MODEL_REPLAY } = process.env;
const seeds = LANCEGATE_MODEL_SEED === undefined ? [1, 2] : LANCEGATE_MODEL_SEED.split(',').map(Number);
const steps = Number(LANCEGATE_MODEL_STEPS ?? 40);

/** About a minute of replaying. */
const shrinkingSteps = 600;

const playOn = (subject: OperationsSubject): Play<World, Step> => ({
  begin: emptyWorld(subject.root),
  draw: randomStep,
  async perform(world, step, looks) {
    const next = settle(world, expectStep(world, step), await subject.apply(world, step));
    return compareWorld(subject, next, step, looks);
  },
});

describe('all operations do what the reference model says, step by step', () => {
  const later = afterSuite();
  const clock = new RetentionClock();
  let service: TestService;
  before(async () => {
    const settings = { AUTO_MAINTENANCE: 'false', VERSION_RETENTION: `${retentionMs}ms` };
    service = await startTestService(later, settings, clock);
  });

  let sequences = 0;
  const fresh = async () => playOn(await OperationsSubject.open(service, clock, `sequence-${++sequences}`));

  /** What the engine said to an internal error is in the log alone. */
  const lastError = () => service.log.findLast((line) => line.includes('"level":"error"'));

  if (LANCEGATE_MODEL_REPLAY !== undefined) {
    test(`the steps of ${LANCEGATE_MODEL_REPLAY}`, async () => {
      const recorded = fromJson(readFileSync(LANCEGATE_MODEL_REPLAY, 'utf8')) as Step[];
      const failure = await replay(await fresh(), recorded);
      if (failure !== undefined) assert.fail(failureText(failure, stepText, lastError()));
    });
    return;
  }

  for (const seed of seeds) {
    test(`seed ${seed}: ${steps} random steps leave rows, columns, versions, counts and lists as the reference has them (P1, P2, P4, P5, P6, P11)`, async (t) => {
      t.diagnostic(`LANCEGATE_MODEL_SEED=${seed} LANCEGATE_MODEL_STEPS=${steps}`);
      const failure = await runRandom(await fresh(), { seed, steps });
      if (failure !== undefined)
        assert.fail(failureText(await shrink(failure, fresh, shrinkingSteps), stepText, lastError()));
    });
  }
});
