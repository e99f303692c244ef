/** Inserts of many chunks that end before their last one: what they had staged goes, and the table is as it was. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { arrowStream } from '#test/fixtures/service.ts';
import { mintToken, type ServiceProcess, startServiceProcess } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from './eventually.ts';
import { sampleBatch, sampleSchema, sampleStream } from './sample-stream.ts';
import { entriesUnder } from './stored.ts';
import { Upload } from './upload-client.ts';

const batch = (index: number) => sampleBatch(index, 1, 64 * 2 ** 10);
const bounds = { chunkBytes: 64 * 2 ** 10 };

/** Each has a table of its name. */
const modes = ['append', 'overwrite'];

const staged = (data: string, table: string): readonly string[] =>
  entriesUnder(join(data, 'tables')).filter(
    (path) => path.includes(`${table}.lance/lancegate=staging`) && path.includes('.lance/data/'),
  );

/** An insert of which some chunks are staged. */
async function begun(service: ServiceProcess, token: string, data: string, mode: string): Promise<Upload> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': arrowStream };
  const upload = new Upload(`${service.url}/v1/table/${mode}/insert?mode=${mode}`, headers);
  upload.answer.catch(() => undefined);
  await upload.write(sampleSchema);
  for (let index = 0; index < 6; index += 1) await upload.write(batch(index));
  await eventually('rows are staged', () => staged(data, mode).length > 0);
  return upload;
}

test('of an append and of an overwrite that their client or the service leaves, nothing stays (P1)', async (t) => {
  const later = lastFirst((clean) => t.after(clean));
  const data = temporaryFolder(later);
  const token = await mintToken(data);
  const first = await startServiceProcess(data, token, bounds);
  later(() => first.kill());
  for (const table of modes) assert.equal((await first.post(`/v1/table/${table}/create`, sampleStream(2))).status, 200);
  const filesOf = (table: string) => readdirSync(join(data, `tables/${table}.lance/data`));
  const before = modes.map(filesOf);
  for (const mode of modes) {
    const left = await begun(first, token, data, mode);
    await left.breakOff();
    await eventually('staging is empty', () => staged(data, mode).length === 0);
    await begun(first, token, data, mode);
  }
  await first.kill();
  for (const mode of modes) assert.ok(staged(data, mode).length > 0);
  const second = await startServiceProcess(data, token, bounds);
  later(() => second.kill());
  for (const mode of modes) assert.deepEqual(staged(data, mode), []);
  assert.deepEqual(modes.map(filesOf), before);
  for (const table of modes)
    assert.equal((await second.post(`/v1/table/${table}/insert`, sampleStream(2))).status, 200);
});
