/** Rows as text, in messages that share memory, written by two threads. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { mostReplyBytes } from '#src/query/protocol.ts';
import { answerBytesOf, ResultBytes } from '#src/query/result-bytes.ts';
import { TextThread } from '#src/query/threaded-text.ts';
import type { RowFormat } from '#src/rows/answer-form.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';

const schema = schemaOf([field('id', { kind: 'int', bitWidth: 32, signed: true }), field('text', { kind: 'utf8' })]);

const rowOf = (id: number): { readonly id: number; readonly text: string } => ({
  id,
  text: `row ${id} `.repeat(id % 90),
});

async function fileOf(from: number, count: number): Promise<IpcFile> {
  const rows = Array.from({ length: count }, (_, i) => rowOf(from + i));
  const columns = { id: rows.map(({ id }) => id), text: rows.map(({ text }) => text) };
  return (await wholeOf(encodeStream(schema, [columns]))).file;
}

const counts = [1, 700, 0, 3_000, 5, 900, 2_500];
const all = counts.reduce((sum, count) => sum + count, 0);

async function* files(): AsyncGenerator<IpcFile, void, void> {
  let from = 0;
  for (const count of counts) {
    yield await fileOf(from, count);
    from += count;
  }
}

/** As a reader sends them: each is copied only once the next one is there. */
async function messagesOf(results: ResultBytes): Promise<readonly Buffer[]> {
  const messages: Buffer[] = [];
  let leaving: readonly Buffer[] = [];
  for (let isLast = false; !isLast; ) {
    const next = await results.next();
    messages.push(Buffer.concat(leaving));
    [leaving, isLast] = [next.bytes, next.isLast];
  }
  messages.push(Buffer.concat(leaving));
  return messages;
}

const expected: Readonly<Record<RowFormat, (lines: readonly ReturnType<typeof rowOf>[]) => string>> = {
  ndjson: (lines) => lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  json: (lines) => {
    const columns = [
      { name: 'id', type: 'int32' },
      { name: 'text', type: 'utf8' },
    ];
    return `{"columns":${JSON.stringify(columns)},"rows":[\n${lines.map((line) => JSON.stringify(line)).join(',\n')}\n]}\n`;
  },
  csv: (lines) => `id,text\r\n${lines.map(({ id, text }) => `${id},${text || '""'}\r\n`).join('')}`,
  'csv-without-header': (lines) => lines.map(({ id, text }) => `${id},${text || '""'}\r\n`).join(''),
};

describe('rows as text', () => {
  for (const format of Object.keys(expected) as RowFormat[])
    for (const when of ['while the first results are sent', 'before the result'] as const)
      test(`${format}: a message is whole until the next one was made, where the thread is ready ${when}`, async () => {
        await using thread = new TextThread();
        if (when === 'before the result') {
          thread.start();
          while (!thread.isReady) await setImmediate();
        }
        const results = new ResultBytes(files(), answerBytesOf({ kind: 'text', format, vectors: 'full' }, thread));
        const messages = await messagesOf(results);
        assert.ok(messages.length > 4);
        assert.ok(messages.slice(1, -1).every(({ length }) => length === mostReplyBytes));
        const lines = Array.from({ length: all }, (_, id) => rowOf(id));
        assert.equal(Buffer.concat(messages).toString(), expected[format](lines));
        assert.equal(results.rows, all);
      });

  test('what the thread refuses is what the result ends with, and the next result is whole', async () => {
    await using thread = new TextThread();
    thread.start();
    while (!thread.isReady) await setImmediate();
    const form = { kind: 'text', format: 'ndjson', vectors: 'full' } as const;
    const file = await fileOf(0, 900);
    const broken = Buffer.from(file) as Buffer as IpcFile;
    broken.fill(0xff, broken.indexOf('row 1 '), broken.indexOf('row 1 ') + 2);
    const twoFiles = (async function* () {
      yield file;
      yield broken;
    })();
    await assert.rejects(messagesOf(new ResultBytes(twoFiles, answerBytesOf(form, thread))), {
      kind: 'InvalidInput',
      message: /not UTF-8/,
    });
    const messages = await messagesOf(new ResultBytes(files(), answerBytesOf(form, thread)));
    assert.equal(Buffer.concat(messages).toString().trimEnd().split('\n').length, all);
  });
});
