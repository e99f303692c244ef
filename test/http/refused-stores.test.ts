/** Object stores that a service does not start on: they would lose commits, or nothing bounds what is late there (P1). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerJson, serverOf } from '#test/fixtures/answering-server.ts';
import { startTestService } from '#test/fixtures/service.ts';

const root = 'gs://careless/tables';

test('a store that makes an object for each of several programs ends the start, by its name (P1)', async (t) => {
  const { url, asked } = await serverOf(t, (_, answer) => answerJson(answer, {}));
  const options = { google_base_url: url, google_bearer_token: 'token' };
  const settings = { STORAGE_ROOT: root, STORAGE_OPTIONS: JSON.stringify(options) };
  const starting = startTestService((clean) => t.after(clean), settings);
  await assert.rejects(starting, {
    message: `${root} does not honour conditional writes: 8 of 8 programs made the same object`,
  });
  assert.equal(asked.filter(({ url }) => /ifGenerationMatch=0/.test(url)).length, 8);
});

test('a SAS token of Azure without an end ends the start before anything is asked (P1, P9)', async (t) => {
  const { url, asked } = await serverOf(t, (_, answer) => answerJson(answer, {}));
  const options = { account_name: 'gate', azure_endpoint: url, sas_token: 'sv=2022-11-02&si=policy&sig=secret' };
  const settings = { STORAGE_ROOT: 'az://careless/tables', STORAGE_OPTIONS: JSON.stringify(options) };
  const starting = startTestService((clean) => t.after(clean), settings);
  await assert.rejects(starting, { name: 'StoreUnusable', message: /has to name its end/ });
  assert.deepEqual(asked, []);
});
