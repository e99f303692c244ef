/** What the adapter of S3 makes of credentials, lost answers and a process that stands still: on a server of the test. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { S3Store } from '#src/engine/lance/store/s3-store.ts';
import { StoreOptions } from '#src/engine/lance/store/store-options.ts';
import { answerJson, serverOf } from '#test/fixtures/answering-server.ts';
import { isOpen } from '#test/fixtures/open-files.ts';
import { standStillMs } from '#test/fixtures/standstill.ts';
import { storeErrorWithout } from '#test/fixtures/store-error.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';

const secret = 'MIIsecretMII';
const keys = { access_key_id: 'key-1', secret_access_key: secret, session_token: `session-${secret}` };
const content = Buffer.from('x');

/** `timeoutMs`: as of the store. */
function storeAt(t: TestContext, url: string, options: Readonly<Record<string, string>> = keys, timeoutMs?: number) {
  const store = new S3Store('tables', new StoreOptions({ endpoint: url, ...options }, /^aws_/), timeoutMs);
  t.after(() => store.close());
  return store;
}

const refuse = (answer: ServerResponse, status: number, text = ''): void => {
  answer.writeHead(status, { 'content-type': 'application/xml' });
  answer.end(`<?xml version="1.0"?><Error><Code>C${status}</Code><Message>${text}</Message></Error>`);
};

test('a process that stood still before its conditional write was signed sends nothing of it (P1)', async (t) => {
  const { url, asked } = await serverOf(t, (_, answer) => void answer.end());
  const made = storeAt(t, url, keys, 30).putIfAbsent('version', content);
  standStillMs(60);
  await assert.rejects(made, { kind: 'StorageUnavailable' });
  assert.deepEqual(asked, []);
});

for (const [when, isKept, requests] of [
  ['after it was carried out', true, ['PUT *', 'GET undefined']],
  ['on its way', false, ['PUT *', 'GET undefined', 'PUT *']],
] as const) {
  for (const status of [undefined, 408, 409, 429, 500, 503]) {
    const how = status === undefined ? 'whose answer is lost' : `that is answered ${status}`;
    test(`a conditional write ${how} ${when} is looked up before it is sent again (P1, P6)`, async (t) => {
      let kept: Buffer | undefined;
      const { url, asked } = await serverOf(t, ({ method, body }, answer) => {
        if (method === 'GET') return void (kept === undefined ? refuse(answer, 404) : answer.end(kept));
        const isFirst = asked.length === 1;
        if (isKept || !isFirst) kept = body;
        if (!isFirst) answer.end();
        else if (status === undefined) answer.destroy();
        else refuse(answer, status);
      });
      assert.equal(await storeAt(t, url).putIfAbsent('version', content), true);
      assert.deepEqual(
        asked.map(({ method, headers }) => `${method} ${headers['if-none-match']}`),
        requests,
      );
    });
  }
}

/** The machine's own credentials are those that the server gives out. */
function takeCredentialsFrom(t: TestContext, url: string): void {
  const set = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: url,
    AWS_CONFIG_FILE: '/nowhere/config',
    AWS_SHARED_CREDENTIALS_FILE: '/nowhere/credentials',
    AWS_EC2_METADATA_DISABLED: 'true',
  };
  const before = Object.keys(set).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, set);
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
}

test('credentials of the machine are kept as long as they last, and replaced before they end', async (t) => {
  let [given, lifeMs] = [0, 60_000];
  const machine = await serverOf(t, (_, answer) => {
    const Expiration = new Date(Date.now() + lifeMs).toISOString();
    lifeMs = 3_600_000;
    answerJson(answer, { AccessKeyId: `key-${++given}`, SecretAccessKey: secret, Token: 'token', Expiration });
  });
  takeCredentialsFrom(t, machine.url);
  const { url, asked } = await serverOf(t, (_, answer) => void answer.end());
  const store = storeAt(t, url, {});
  const lastKey = () => /Credential=([^/]+)/.exec(asked.at(-1)?.headers.authorization ?? '')?.[1];
  await store.put('a', content);
  assert.equal(lastKey(), 'key-1');
  // The next credentials are fetched beside requests that still go with these.
  await eventually('the next ones are used', async () => {
    await store.put('a', content);
    return lastKey() === 'key-2';
  });
  for (let request = 0; request < 3; request++) await store.put('a', content);
  assert.deepEqual([lastKey(), given], ['key-2', 2]);
});

test('no error has anything of the credentials in it (P9)', async (t) => {
  const { url } = await serverOf(t, (_, answer) => refuse(answer, 403, 'not yours'));
  const path = join(
    temporaryFolder((clean) => t.after(clean)),
    'large',
  );
  writeFileSync(path, randomBytes(9 * 2 ** 20));
  const store = storeAt(t, url);
  for (const act of [
    () => store.get('a'),
    () => store.put('a', content),
    () => store.put('a', { path }),
    () => store.putIfAbsent('a', content),
    () => store.delete(['a']),
    () => store.copy('a', 'b'),
    () => Array.fromAsync(store.list({ prefix: '' })),
  ]) {
    await assert.rejects(act, storeErrorWithout(secret));
  }
});

test('the parts of a large file are sent as one upload, which is not completed where a part is refused (P1)', async (t) => {
  const large = randomBytes(20 * 2 ** 20);
  const path = join(
    temporaryFolder((clean) => t.after(clean)),
    'large',
  );
  writeFileSync(path, large);
  let isRefusing = false;
  const { url, asked } = await serverOf(t, ({ method, url: path }, answer) => {
    if (isRefusing && /partNumber=2/.test(path)) return refuse(answer, 403);
    if (method === 'POST' && /[?&]uploads/.test(path))
      return void answer.end('<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>');
    answer.setHeader('etag', '"part"');
    answer.end(
      method === 'POST' ? '<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>' : '',
    );
  });
  const store = storeAt(t, url);
  await store.put('large', { path });
  const parts = asked.filter(({ method }) => method === 'PUT').sort((a, b) => (a.url < b.url ? -1 : 1));
  assert.deepEqual(
    parts.map(({ body }) => body.length),
    [2 ** 23, 2 ** 23, 2 ** 22],
  );
  assert.ok(Buffer.concat(parts.map(({ body }) => body)).equals(large));
  const completed = () => asked.filter(({ method, url }) => method === 'POST' && /uploadId=u/.test(url)).length;
  assert.equal(completed(), 1);
  isRefusing = true;
  await assert.rejects(store.put('large', { path }), { kind: 'StorageUnavailable' });
  assert.equal(completed(), 1);
  assert.equal(asked.at(-1)?.method, 'DELETE', 'the upload is taken back');
  await eventually('the file is closed', () => !isOpen(path));
});
