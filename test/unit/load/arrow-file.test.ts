/** Arrow files and streams as programs write them: compressed, with views, with dictionaries. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { IpcChunk } from '#src/arrow/schema/schema.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { messagesOfArrow } from '#src/load/arrow-file.ts';
import { streamOf } from '#src/load/row-messages.ts';
import { RowText } from '#src/rows/answers/row-text.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

const mutations = Number(process.env.LANCEGATE_TEST_ARROW_MUTATIONS ?? 40);

/** By polars 2.1 and pyarrow 26. */
const files = [
  'polars/uncompressed-100-rows.arrow',
  'polars/lz4-100-rows.arrow',
  'polars/zstd-100-rows.arrow',
  'pyarrow/lz4-100-rows.feather',
  'pyarrow/zstd-100-rows.arrows',
].map((name) => join(import.meta.dirname, '../../fixtures', name));

const expected = Array.from({ length: 100 }, (_, i) => ({
  id: i,
  name: i % 7 === 0 ? null : `name ${i}${' and so on'.repeat(i % 4)}`,
  colour: ['red', 'a green that is rather long', null][i % 3],
  tags: i % 5 === 0 ? null : [`tag ${i}`, 'a tag of more than twelve bytes'],
  place: { city: `city ${i % 9} of many`, zip: i % 9 },
  day: new Date(Date.UTC(2026, 0, 1 + i)).toISOString().slice(0, 10),
}));

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 1_000) yield bytes.subarray(at, at + 1_000);
}

/** What `load` sends of it, as the service takes it. */
async function sentOf(path: string, isPipe: boolean): Promise<IpcChunk> {
  const input = { path: isPipe ? undefined : path, pieces: () => pieces(readFileSync(path)) };
  const messages = await Array.fromAsync(messagesOfArrow(input), ({ bytes }) => bytes);
  return wholeOf(streamOf(messages));
}

async function rowsOf(path: string, isPipe: boolean): Promise<readonly unknown[]> {
  const text = new RowText({ kind: 'text', format: 'ndjson', vectors: 'full' }, 1 << 20);
  const lines = [...text.add((await sentOf(path, isPipe)).file), ...text.end()];
  return Buffer.concat(lines)
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}

for (const path of files)
  test(`${path.split('/').slice(-2).join('/')} has its rows, also through a pipe`, async () => {
    assert.deepEqual(await rowsOf(path, false), expected);
    assert.deepEqual(await rowsOf(path, true), expected);
  });

for (const path of files)
  test(`${path.split('/').slice(-2).join('/')} is read or refused where ${mutations} times something in it was changed`, async (t) => {
    const changed = join(
      temporaryFolder((clean) => t.after(clean)),
      'a.arrow',
    );
    const whole = readFileSync(path);
    const random = new Random(Number(process.env.LANCEGATE_TEST_SEED ?? 1));
    let refusals = 0;
    for (let mutation = 0; mutation < mutations; mutation += 1) {
      const bytes = Buffer.from(whole);
      for (let change = random.int(8); change >= 0; change -= 1) bytes[random.int(bytes.length)] = random.int(256);
      writeFileSync(changed, random.chance(15) ? bytes.subarray(0, random.int(bytes.length)) : bytes);
      try {
        await sentOf(changed, random.chance(50));
      } catch (error) {
        assert.ok(error instanceof LancegateError, String(error instanceof Error ? error.stack : error));
        refusals += 1;
      }
    }
    assert.ok(refusals > 0);
  });
