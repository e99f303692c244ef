/**
 * Whatever a client writes for a filter, it is refused with what is wrong, or the engine counts and merges by it: no death, no
 * hang, no gigabytes, no cell in an error (P12). By hand:
 *   LANCEGATE_SQL_RUNS=100000 LANCEGATE_SQL_SEED=7 node --test test/fuzz/sql.test.ts
 */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { filterReader } from '#src/wire/merge-parameters.ts';
import { randomOf } from '#test/fuzz/mutations.ts';
import { SqlWriter } from '#test/fuzz/sql-grammar.ts';
import { SqlJudge, type SqlVerdict } from '#test/fuzz/sql-judge.ts';
import { showsSecret } from '#test/fuzz/sql-table.ts';

const runs = Number(process.env.LANCEGATE_SQL_RUNS ?? 300);
const seed = Number(process.env.LANCEGATE_SQL_SEED ?? 1);
/** On a machine that does much else. */
const mostMs = 5_000;
const mostResidentBytes = 1_500_000_000;
const ways = ['count', 'count', 'count', 'update', 'delete'] as const;

const read = filterReader([]);
const judges = [new SqlJudge({ withIndex: false }), new SqlJudge({ withIndex: true })];

/** The text as the engine gets it; undefined where it is refused. */
function admit(sql: string): string | undefined {
  try {
    return read(sql, 'predicate');
  } catch (error) {
    assert.ok(error instanceof LancegateError && error.kind === 'InvalidInput', String(error));
    assert.match(error.message, /^predicate: (?:.|\n)* \((?:line \d+, )?column \d+\)$/);
    return undefined;
  }
}

function faultOf(verdict: SqlVerdict, sql: string): string | undefined {
  if (!('ms' in verdict)) return JSON.stringify(verdict);
  if (verdict.ms > mostMs) return `took ${Math.round(verdict.ms)} ms`;
  if (verdict.residentBytes > mostResidentBytes) return `holds ${verdict.residentBytes} bytes`;
  if ('rows' in verdict) return undefined;
  if (verdict.refusedAs !== 'InvalidInput' && verdict.refusedAs !== 'TableColumnNotFound') {
    return `${verdict.refusedAs}: ${verdict.engineText.slice(0, 400)}`;
  }
  return showsSecret(verdict.message, sql) ? `shows a cell: ${verdict.message}` : undefined;
}

interface Outcome {
  readonly of: 'refusedByUs' | 'refusedByEngine' | 'evaluated';
  readonly fault?: string | undefined;
}

async function outcomeOf(run: number): Promise<Outcome> {
  const random = randomOf(seed, run);
  const way = ways[random(ways.length)] ?? 'count';
  const sql = new SqlWriter(random, way === 'update' ? 'target.' : '').condition();
  const admitted = admit(sql);
  if (admitted === undefined) return { of: 'refusedByUs' };
  const judge = judges[random(judges.length)] ?? assert.fail();
  const verdict = await judge.judge({ way, sql: admitted });
  const fault = faultOf(verdict, sql);
  return {
    of: 'rows' in verdict ? 'evaluated' : 'refusedByEngine',
    fault: fault && `seed ${seed}, run ${run}, ${way}: ${sql.slice(0, 400)}: ${fault}`,
  };
}

describe(`${runs} filters at random, seed ${seed}`, () => {
  after(() => {
    for (const judge of judges) judge.stop();
  });

  it('are refused with what is wrong, or evaluated in bounded time and memory (P12)', async (t) => {
    const tally = { refusedByUs: 0, refusedByEngine: 0, evaluated: 0 };
    const faults: string[] = [];
    for (let run = 0; run < runs; run++) {
      const { of, fault } = await outcomeOf(run);
      tally[of] += 1;
      if (fault !== undefined) faults.push(fault);
    }
    t.diagnostic(`seed ${seed}: ${JSON.stringify(tally)}, ${faults.length} faults`);
    assert.deepEqual(faults.slice(0, 20), []);
    assert.ok(
      runs < 300 || Math.min(...Object.values(tally)) > runs / 50,
      'the fuzzer reaches both sides of the check',
    );
  });
});
