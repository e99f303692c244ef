/**
 * Every operation that writes, in a service that is killed amid it, or whose reader or index builder is. By hand:
 *   LANCEGATE_TEST_CRASHES=200 LANCEGATE_TEST_CRASH_SEED=7 node --test test/system/crash-operations.test.ts
 * A seed determines what is sent and when the death is due; the moment itself is the machine's. LANCEGATE_TEST_CRASH_ONLY names
 * subjects, with commas between them. What became of the requests is counted in the diagnostics.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { mintToken } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';
import { CrashRound, type Victim } from './crash-round.ts';
import { Sequence, type Subject, Tally } from './crash-sequence.ts';
import { CrashService } from './crash-service.ts';
import { allSubjects } from './crash-subjects.ts';

const crashes = Number(process.env.LANCEGATE_TEST_CRASHES ?? 3);
const seed = Number(process.env.LANCEGATE_TEST_CRASH_SEED ?? 1);
const only = process.env.LANCEGATE_TEST_CRASH_ONLY?.split(',');
const subjectsPerCrash = 5;
/** Inserts of some thousand rows are several chunks. */
const bounds = { chunkBytes: 16 * 2 ** 10, indexFromRows: 300 };

const victims: readonly (readonly [number, Victim])[] = [
  [4, 'service'],
  [1, 'reader'],
  [1, 'index builder'],
];

test(`${crashes} deaths amid all that writes: all of it is there wholly or not at all, and once (P1, P2, P3, P6)`, async (t) => {
  t.diagnostic(`LANCEGATE_TEST_CRASHES=${crashes} LANCEGATE_TEST_CRASH_SEED=${seed}`);
  const later = lastFirst((clean) => t.after(clean));
  const data = temporaryFolder(later);
  const root = join(data, 'tables');
  const token = await mintToken(data);
  const random = new Random(seed);
  const tally = new Tally();
  let service = await CrashService.start(data, token, [bounds]);
  later(() => service.kill());
  let waiting: Subject<unknown>[] = [];
  try {
    for (let crash = 1; crash <= crashes; crash += 1) {
      if (waiting.length < subjectsPerCrash) {
        const subjects = allSubjects(root).filter(({ name }) => only?.includes(name) ?? true);
        waiting = [...waiting, ...random.sample(subjects, subjects.length)];
      }
      const subjects = waiting.splice(0, subjectsPerCrash);
      const sequences = subjects.map(
        (subject, at) => new Sequence({ subject, table: `${subject.name}-${crash}-${at}`, random, tally }),
      );
      const victim = random.weighted(victims);
      const round = new CrashRound({ sequences, victim, random, tally, root });
      await round.run(service);
      if (victim === 'service') {
        const killed = service;
        service = await CrashService.start(data, token, [bounds]);
        await killed.requireNoReaderLeft();
      }
      await round.check(service);
      tally.count(`deaths of a ${victim}`);
    }
  } catch (error) {
    t.diagnostic(service.log);
    throw error;
  } finally {
    for (const line of tally.lines()) t.diagnostic(line);
  }
  assert.equal(await service.stop(), 0);
});
