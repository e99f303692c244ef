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
const settings = ['--chunk-size', '64KiB'];

const staged = (data: string): readonly string[] =>
  entriesUnder(join(data, 'tables')).filter(
    (path) => path.includes('lancegate=staging') && path.includes('.lance/data/'),
  );

/** An insert of which some chunks are staged. */
async function begun(service: ServiceProcess, token: string, data: string, mode: string): Promise<Upload> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': arrowStream };
  const upload = new Upload(`${service.url}/v1/table/t/insert?mode=${mode}`, headers);
  upload.answer.catch(() => undefined);
  await upload.write(sampleSchema);
  for (let index = 0; index < 6; index += 1) await upload.write(batch(index));
  await eventually('rows are staged', () => staged(data).length > 0);
  return upload;
}

for (const mode of ['append', 'overwrite']) {
  test(`of an ${mode} that its client or the service leaves, nothing stays (P1)`, async (t) => {
    const later = lastFirst((clean) => t.after(clean));
    const data = temporaryFolder(later);
    const token = await mintToken(data);
    const first = await startServiceProcess(data, token, ...settings);
    later(() => first.kill());
    assert.equal((await first.post('/v1/table/t/create', sampleStream(2))).status, 200);
    const before = readdirSync(join(data, 'tables/t.lance/data'));
    const left = await begun(first, token, data, mode);
    await left.breakOff();
    await eventually('staging is empty', () => staged(data).length === 0);
    await begun(first, token, data, mode);
    await first.kill();
    assert.ok(staged(data).length > 0);
    const second = await startServiceProcess(data, token, ...settings);
    later(() => second.kill());
    assert.deepEqual(staged(data), []);
    assert.deepEqual(readdirSync(join(data, 'tables/t.lance/data')), before);
    assert.equal((await second.post('/v1/table/t/insert', sampleStream(2))).status, 200);
  });
}
