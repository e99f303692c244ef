/**
 * Whatever a client sends, the check in front of the engine refuses it or the engine takes it: no abort, no panic, no
 * hang, no rows lost (P1, P7). By hand: LANCEGATE_FUZZ_RUNS=100000 LANCEGATE_FUZZ_SEED=7 node --test test/fuzz/*.test.ts
 */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import type { IpcChunk } from '#src/arrow/schema/schema.ts';
import { checkStorable } from '#src/arrow/schema/schema-rules.ts';
import type { IpcLimits } from '#src/arrow/stream/source-reader.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { findDuplicate, readKeys } from '#src/keys/key-columns.ts';
import { KeyHasher } from '#src/keys/key-hasher.ts';
import { emptyStream, polarsStreams, streamsByType, wholeOf, wideStream } from '#test/fixtures/streams.ts';
import { EngineJudge } from '#test/fuzz/engine-judge.ts';
import { mutate, randomOf } from '#test/fuzz/mutations.ts';

const runs = Number(process.env.LANCEGATE_FUZZ_RUNS ?? 1500);
const seed = Number(process.env.LANCEGATE_FUZZ_SEED ?? 1);
const limits: IpcLimits = {
  chunkBytes: 1 << 20,
  maxMessageBytes: 1 << 20,
  maxMetadataBytes: 1 << 18,
  maxWholeBytes: 1 << 20,
  maxDecodedBytes: 1 << 22,
};

const codecs = ['none', 'lz4', 'zstd'] as const;
const corpus = [
  ...codecs.flatMap((codec) => [...streamsByType(codec), wideStream(codec)]),
  ...polarsStreams().filter(({ bytes }) => bytes.length < 10_000),
  emptyStream(),
];

const hasher = new KeyHasher(new Uint32Array(8));

/** What the service does with a source before it gives it to the engine; undefined where it refuses. */
async function admit(bytes: Buffer): Promise<IpcChunk | undefined> {
  try {
    const chunk = await wholeOf(bytes, limits);
    checkStorable(chunk.schema);
    for (const { name } of chunk.schema.fields) await tryKeys(chunk, name);
    return chunk;
  } catch (error) {
    if (error instanceof LancegateError) return undefined;
    throw error;
  }
}

/** Values that lie are refused only where they are keys, so a refusal here does not spare the engine. */
async function tryKeys(chunk: IpcChunk, name: string): Promise<void> {
  try {
    const keys = readKeys(chunk, [{ segments: [name] }]);
    await findDuplicate(keys, await hasher.digest(keys));
    if (keys.rows > 0 && keys.rows < 1000) keys.sqlLiterals(0);
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
  }
}

type Outcome = 'refusedByUs' | 'refusedByEngine' | 'stored';

/** Fails with how the run can be repeated, where its outcome is none of these. */
async function outcomeOf(run: number, judge: EngineJudge): Promise<Outcome> {
  const random = randomOf(seed, run);
  const base = corpus[random(corpus.length)]!;
  const { bytes, how } = mutate(base.bytes, random);
  const label = `seed ${seed}, run ${run}: ${base.title}; ${how}`;
  const chunk = await admit(bytes).catch((cause: unknown) =>
    assert.fail(`${label}: ${String(cause)} ${(cause as Error).stack}`),
  );
  if (chunk === undefined) return 'refusedByUs';
  const verdict = await judge.judge(chunk.file);
  if ('refused' in verdict && !/panic/i.test(verdict.refused)) return 'refusedByEngine';
  if ('stored' in verdict && verdict.stored === chunk.rows) return 'stored';
  return assert.fail(`${label}: ${chunk.rows} rows sent, ${JSON.stringify(verdict)}`);
}

describe(`${runs} damaged streams, seed ${seed}`, () => {
  const judge = new EngineJudge();
  after(() => judge.stop());

  it('are refused, or stored whole (P1, P7)', async (t) => {
    const tally = { refusedByUs: 0, refusedByEngine: 0, stored: 0 };
    for (let run = 0; run < runs; run++) tally[await outcomeOf(run, judge)] += 1;
    t.diagnostic(`seed ${seed}: ${JSON.stringify(tally)}`);
    assert.ok(runs < 1000 || (tally.refusedByUs > 0 && tally.stored > 0), 'the fuzzer reaches both sides of the check');
  });
});
