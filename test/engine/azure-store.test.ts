/** What the adapter of Azure's store makes of keys, SAS tokens and lost answers: on a server of the test. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AzureStore, azureAccountIn } from '#src/engine/lance/store/azure-store.ts';
import { openStore } from '#src/engine/lance/store/open-store.ts';
import { StoreOptions } from '#src/engine/lance/store/store-options.ts';
import { serverOf } from '#test/fixtures/answering-server.ts';
import { isOpen } from '#test/fixtures/open-files.ts';
import { standStillMs } from '#test/fixtures/standstill.ts';
import { storeErrorWithout } from '#test/fixtures/store-error.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';

const key = Buffer.from('a key of the account').toString('base64');
const content = Buffer.from('x');
const dayMs = 24 * 3_600_000;
const nowMs = Date.now();
const endingIn = (ms: number) => `se=${encodeURIComponent(new Date(nowMs + ms).toISOString())}`;
const withKey = { account_key: key };
const withToken = {
  azure_storage_sas_token: `?sv=2022-11-02&sp=rwdlc&sr=c&${endingIn(dayMs)}&sig=${key.slice(0, 10)}`,
};

const accountIn = (options: Readonly<Record<string, string>>) =>
  azureAccountIn(new StoreOptions({ account_name: 'gate', ...options }, /^azure_(?:storage_)?/), nowMs);

const storeAt = (endpoint: string, options: Readonly<Record<string, string>>) =>
  new AzureStore('tables', accountIn({ endpoint, ...options }) ?? assert.fail());

const refuse = (answer: ServerResponse, status: number, code: string): void => {
  answer.writeHead(status, { 'content-type': 'application/xml', 'x-ms-error-code': code });
  answer.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>injected</Message></Error>`);
};

test('a conditional write is signed when it is decided, for a quarter of an hour, however late it is sent (P1)', async (t) => {
  const { url, asked } = await serverOf(t, (_, answer) => void answer.writeHead(201).end());
  const store = storeAt(url, withKey);
  const decidedMs = Date.now();
  const made = store.putIfAbsent('version', content);
  standStillMs(1_100);
  assert.equal(await made, true);
  const [request] = asked;
  const token = new URL(request?.url ?? '', url).searchParams;
  assert.ok(Date.parse(token.get('se') ?? '') <= decidedMs + store.refusedAfterMs);
  assert.equal(token.get('sr'), 'b', 'for this object alone');
  assert.equal(request?.headers.authorization, undefined);
});

for (const [how, token, isTaken] of [
  ['ends within a week', endingIn(7 * dayMs - 1_000), true],
  ['ends later', endingIn(7 * dayMs + 1_000), false],
  ['leaves its end to a policy of the container', 'si=policy', false],
  ['has an end that is no time', 'se=never', false],
] as const) {
  test(`a SAS token that ${how} is ${isTaken ? 'taken' : 'refused at the start, without a word of it'} (P1, P9)`, () => {
    const opened = () => accountIn({ sas_token: `sv=2022-11-02&${token}&sig=${key}` });
    if (isTaken) return assert.ok(opened());
    assert.throws(opened, (error) => {
      assert.ok(error instanceof Error && error.name === 'StoreUnusable');
      assert.match(error.message, /has to name its end \(se\), a week ahead at most/);
      assert.ok(!String(error.stack).includes(key));
      return true;
    });
  });
}

test('the number of a version stays taken for as long as the signature of a write may live (P1)', () => {
  assert.equal(storeAt('http://127.0.0.1:1', withKey).refusedAfterMs, 15 * 60_000);
  assert.equal(storeAt('http://127.0.0.1:1', withToken).refusedAfterMs, 7 * dayMs);
});

for (const [when, isKept, requests] of [
  ['after it was carried out', true, ['PUT *', 'GET undefined']],
  ['on its way', false, ['PUT *', 'GET undefined', 'PUT *']],
] as const) {
  for (const status of [undefined, 408, 409, 429, 500, 503]) {
    const how = status === undefined ? 'whose answer is lost' : `that is answered ${status}`;
    test(`a conditional write to Azure ${how} ${when} is looked up before it is sent again (P1, P6)`, async (t) => {
      let kept: Buffer | undefined;
      const { url, asked } = await serverOf(t, ({ method, body }, answer) => {
        if (method === 'GET' && kept === undefined) return refuse(answer, 404, 'BlobNotFound');
        answer.setHeader('etag', '"1"');
        if (method === 'GET') return void answer.end(kept);
        const isFirst = asked.length === 1;
        if (isKept || !isFirst) kept = body;
        if (!isFirst) answer.writeHead(201).end();
        else if (status === undefined) answer.destroy();
        else refuse(answer, status, 'Passing');
      });
      assert.equal(await storeAt(url, withKey).putIfAbsent('version', content), true);
      assert.deepEqual(
        asked.map(({ method, headers }) => `${method} ${headers['if-none-match']}`),
        requests,
      );
    });
  }
}

const largeFile = (t: TestContext, bytes: number) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const path = join(folder, 'large');
  const large = randomBytes(bytes);
  writeFileSync(path, large);
  return { path, large };
};

for (const [what, options, secret] of [
  ['an account key', withKey, key],
  ['a SAS token', withToken, `sig=${key.slice(0, 10)}`],
  ['the signature of a write', withKey, 'sig='],
] as const) {
  for (const [how, answering] of [
    ['is refused', (answer: ServerResponse) => refuse(answer, 403, 'AuthenticationFailed')],
    ['breaks off', (answer: ServerResponse) => void answer.writeHead(403, { 'content-length': '9' }).write('x')],
  ] as const) {
    test(`no error of a request that ${how} has anything of ${what} in it (P9)`, async (t) => {
      const { url } = await serverOf(t, (_, answer) => {
        answering(answer);
        setImmediate(() => answer.destroy());
      });
      const store = storeAt(url, options);
      const { path } = largeFile(t, 9 * 2 ** 20);
      for (const act of [
        () => store.get('a'),
        () => store.put('a', content),
        () => store.put('a', { path }),
        () => store.delete(['a']),
        () => store.copy('a', 'b'),
        () => Array.fromAsync(store.list({ prefix: '' })),
      ]) {
        await assert.rejects(act, storeErrorWithout(secret));
      }
    });
  }
}

test('the parts of a large file are sent by themselves, and nothing is made where one is refused (P1)', async (t) => {
  const { path, large } = largeFile(t, 20 * 2 ** 20);
  let isRefusing = false;
  const { url, asked } = await serverOf(t, ({ url: asked }, answer) => {
    if (isRefusing && /comp=block&/.test(asked)) return refuse(answer, 403, 'AuthenticationFailed');
    answer.writeHead(201).end();
  });
  const store = storeAt(url, withKey);
  await store.put('large', { path });
  const blocks = asked.filter(({ url }) => /comp=block(&|$)/.test(url));
  assert.deepEqual(
    blocks.map(({ body }) => body.length).sort((a, b) => b - a),
    [2 ** 23, 2 ** 23, 2 ** 22],
  );
  const lists = () => asked.filter(({ url }) => /comp=blocklist/.test(url));
  const named = [
    ...(lists()[0]
      ?.body.toString()
      .matchAll(/<Latest>([^<]+)</g) ?? []),
  ].map(([, id]) => id);
  const bodyOf = new Map(blocks.map((each) => [new URL(each.url, url).searchParams.get('blockid'), each.body]));
  assert.ok(Buffer.concat(named.map((id) => bodyOf.get(id ?? '') ?? assert.fail())).equals(large));
  isRefusing = true;
  await assert.rejects(store.put('large', { path }), { kind: 'StorageUnavailable' });
  assert.equal(lists().length, 1);
  await eventually('the file is closed', () => !isOpen(path));
  rmSync(path);
  await store.put('small', content); // whatever still looked for the file would fail meanwhile, and this process with it
});

test('an abfss URI names the container and the account, which the options do not contradict', async () => {
  const [root, options] = ['abfss://tables@gate.dfs.core.windows.net/a/b/', { azure_storage_account_key: key }];
  assert.equal((await openStore(root, options))?.prefix, 'a/b/');
  assert.ok(await openStore(root, { ...options, account_name: 'gate' }));
  assert.ok(await openStore('abfss://tables/a', { ...options, account_name: 'gate' }));
  await assert.rejects(openStore(root, { ...options, account_name: 'other' }), /StoreUnusable: .* account gate /);
  for (const host of ['gate.example', 'gate.dfs.core.windows.net.example', '']) {
    await assert.rejects(openStore(`abfss://tables@${host}/a`, options), /StoreUnusable: an abfss URI/);
  }
});
