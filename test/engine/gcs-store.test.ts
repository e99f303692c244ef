/** What the adapter of Google's store makes of keys, tokens, and a store that fails: on a server of the test that speaks its protocol. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes, verify } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { GcsCredentials } from '#src/engine/lance/store/gcs-credentials.ts';
import { GcsStore } from '#src/engine/lance/store/gcs-store.ts';
import { openStore, requireOneWinner } from '#src/engine/lance/store/open-store.ts';
import type { Properties } from '#src/kernel/ids.ts';
import { type Answering, answerJson, serverOf } from '#test/fixtures/answering-server.ts';
import { standStillMs } from '#test/fixtures/standstill.ts';
import { storeErrorWithout } from '#test/fixtures/store-error.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const empty: Answering = (_, answer) => answerJson(answer, {});
const never: Answering = () => undefined;
const folderOf = (t: TestContext) => temporaryFolder((clean) => t.after(clean));
const token: GcsCredentials = { longestMs: 1, headers: async () => new Headers({ authorization: 'Bearer t' }) };
const storeOf = async (options: Properties) => (await openStore('gs://tables/root', options)) ?? assert.fail();
const firstKey = async (options: Properties) => {
  const { store } = await storeOf(options);
  return Array.fromAsync(store.list({ prefix: '' }));
};

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const serviceAccount = { type: 'service_account', client_email: 'gate@test', private_key: pem, private_key_id: 'k1' };

const secret = 'MIIsecretMII';
const keyOf = (google_service_account_key: string): Properties => ({ google_service_account_key });
for (const { name, options, says } of [
  {
    name: 'a key that is not JSON',
    options: keyOf(`{"private_key": ${secret}`),
    says: /_account_key is not a JSON object/,
  },
  { name: 'a key that is a list', options: keyOf(`["${secret}"]`), says: /_account_key is not a JSON object/ },
  { name: 'a file without a key', options: keyOf(`{"client_secret": "${secret}"}`), says: /have no private_key/ },
  { name: 'a broken key', options: keyOf(`{"private_key": "${secret}"}`), says: /not a private key in PEM/ },
  {
    name: 'a key of another type',
    options: keyOf(`{"type": "x", "private_key": "${secret}"}`),
    says: /of a type.*: x$/,
  },
  {
    name: 'a token of two lines',
    options: { google_bearer_token: `a\n${secret}` },
    says: /token of Google is malformed/,
  },
  { name: 'a password in the URL', options: { base_url: `http://a:${secret}@127.0.0.1:1` }, says: /google_base_url/ },
]) {
  test(`${name} is refused at the start, without a word of it (P9)`, async () => {
    const all = { google_base_url: 'http://127.0.0.1:1', ...options };
    const started = async () => requireOneWinner(await storeOf(all), 'probe', 'gs://tables/root');
    await assert.rejects(started, (error) => {
      assert.ok(error instanceof Error && error.name === 'StoreUnusable');
      assert.match(error.message, says);
      assert.ok(!JSON.stringify([error.message, error.stack, String(error.cause)]).includes(secret));
      return true;
    });
  });
}

test('a file of credentials that is not there is named', async () => {
  const options = { google_service_account: '/nowhere/key.json' };
  await assert.rejects(openStore('gs://tables/root', options), /StoreUnusable: .*\/nowhere\/key\.json: ENOENT/);
});

test('a service account signs its tokens itself, for an hour', async (t) => {
  const { url, asked } = await serverOf(t, empty);
  const path = join(folderOf(t), 'key.json');
  writeFileSync(path, JSON.stringify({ ...serviceAccount, gcs_base_url: url }));
  await firstKey({ google_service_account: path });
  const [header = '', claims = '', signature = ''] =
    asked[0]?.headers.authorization?.replace('Bearer ', '').split('.') ?? [];
  const { iss, scope, iat, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString());
  assert.deepEqual([iss, exp - iat, /devstorage/.test(scope)], ['gate@test', 3600, true]);
  assert.ok(verify('RSA-SHA256', Buffer.from(`${header}.${claims}`), publicKey, Buffer.from(signature, 'base64url')));
});

/** An account elsewhere, whose tokens a server of the test exchanges. */
async function externalAccount(t: TestContext, store: string, exchange: Answering) {
  const folder = folderOf(t);
  const { url, asked } = await serverOf(t, exchange);
  writeFileSync(join(folder, 'subject'), 'of-the-machine');
  const path = join(folder, 'credentials.json');
  const audience = '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x';
  const kinds = { type: 'external_account', subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };
  const source = { credential_source: { file: join(folder, 'subject') } };
  writeFileSync(path, JSON.stringify({ ...kinds, ...source, audience, token_url: `${url}/token` }));
  return { exchanges: asked, options: { google_application_credentials: path, google_base_url: store } };
}

const tokenOf = (token: string, seconds: number): Answering => {
  const issued = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token', token_type: 'Bearer' };
  return (_, answer) => answerJson(answer, { ...issued, access_token: token, expires_in: seconds });
};

test('a token is kept for as long as it lasts, and replaced before it ends', async (t) => {
  const { url, asked } = await serverOf(t, empty);
  const lasting = await externalAccount(t, url, tokenOf('lasting', 3_600));
  const { store } = await storeOf(lasting.options);
  for (const prefix of ['a', 'b']) await Array.fromAsync(store.list({ prefix }));
  assert.deepEqual([lasting.exchanges.length, asked[1]?.headers.authorization], [1, 'Bearer lasting']);
  const ending = await externalAccount(t, url, tokenOf('ending', 60));
  const { store: other } = await storeOf(ending.options);
  for (const prefix of ['a', 'b']) await Array.fromAsync(other.list({ prefix }));
  assert.equal(ending.exchanges.length, 2);
});

test('an exchange of tokens that is refused shows nothing of what was to be exchanged (P9)', async (t) => {
  const { url, asked } = await serverOf(t, empty);
  const { exchanges, options } = await externalAccount(t, url, (_, answer) => answerJson(answer, { error: 'no' }, 400));
  await assert.rejects(firstKey(options), storeErrorWithout('of-the-machine'));
  assert.ok(exchanges[0]?.body.includes('of-the-machine'));
  assert.equal(asked.length, 0);
});

test('a token that outlives the number of a version is refused before it is used (P1)', async (t) => {
  const { url, asked } = await serverOf(t, empty);
  const { options } = await externalAccount(t, url, tokenOf('of-half-a-day', 43_200));
  const started = async () => requireOneWinner(await storeOf(options), 'probe', 'gs://tables/root');
  await assert.rejects(started, /^StoreUnusable: gs:\/\/tables\/root cannot be used: .*longer than an hour/);
  assert.equal(asked.length, 0);
});

test('the number of a version stays taken for as long as any token may live (P1)', async () => {
  const lasting = async (options: Properties) => (await storeOf(options)).store.refusedAfterMs;
  assert.equal(await lasting({ google_service_account_key: JSON.stringify(serviceAccount) }), 65 * 60_000);
  assert.equal(await lasting({ google_bearer_token: 'of-unknown-age' }), 12 * 3_600_000);
});

for (const what of ['the store', 'the giver of tokens']) {
  test(`a start ends where ${what} does not answer, and names the store`, async (t) => {
    const { url } = await serverOf(t, never);
    const stuck: GcsCredentials = { longestMs: 1, headers: () => new Promise(() => undefined) };
    const access = { url, credentials: what === 'the store' ? token : stuck };
    const started = requireOneWinner(
      { store: new GcsStore('tables', access, 20), prefix: '' },
      'probe',
      'gs://tables/root',
    );
    await assert.rejects(started, /^StoreUnusable: gs:\/\/tables\/root cannot be used: .*(timeout|in time)/);
  });
}

test('a process that stood still while it waited for a token sends nothing of what it had decided (P1)', async (t) => {
  const { url, asked } = await serverOf(t, empty);
  const credentials: GcsCredentials = {
    longestMs: 1,
    headers: async () => {
      standStillMs(60);
      return token.headers();
    },
  };
  const store = new GcsStore('tables', { url, credentials }, 30);
  await assert.rejects(store.putIfAbsent('version', Buffer.from('x')), { kind: 'StorageUnavailable' });
  assert.equal(asked.length, 0);
});

test('a Google store that lets several programs make the same object is refused by its name', async (t) => {
  const { url } = await serverOf(t, empty);
  const place = { store: new GcsStore('tables', { url, credentials: token }), prefix: '' };
  await assert.rejects(
    requireOneWinner(place, 'probe', 'gs://careless/tables'),
    /gs:\/\/careless\/tables does not honour.*8 of 8/,
  );
});

test('a bucket that is not there is named so, also where one object is asked for', async (t) => {
  const { url } = await serverOf(t, (_, answer) =>
    answerJson(answer, { error: { message: 'The specified bucket does not exist.' } }, 404),
  );
  const store = new GcsStore('tables', { url, credentials: token });
  const missing = { kind: 'StorageUnavailable', message: /no such bucket/ };
  await assert.rejects(store.get('a'), missing);
  await assert.rejects(store.delete(['a']), missing);
});

for (const [when, isKept, requests] of [
  ['after it was carried out', true, ['POST 0', 'GET null']],
  ['on its way', false, ['POST 0', 'GET null', 'POST 0']],
] as const) {
  test(`a conditional write that gets lost ${when} is looked up before it is sent again (P1, P6)`, async (t) => {
    let kept: Buffer | undefined;
    const { url, asked } = await serverOf(t, ({ method, body }, answer) => {
      if (method === 'GET') return void (kept === undefined ? answerJson(answer, {}, 404) : answer.end(kept));
      const isFirst = asked.length === 1;
      if (isKept || !isFirst) kept = body;
      if (isFirst) answer.destroy();
      else answerJson(answer, {});
    });
    assert.equal(
      await new GcsStore('tables', { url, credentials: token }).putIfAbsent('version', Buffer.from('x')),
      true,
    );
    const conditionOf = (path: string) => new URL(path, url).searchParams.get('ifGenerationMatch');
    assert.deepEqual(
      asked.map((each) => `${each.method} ${conditionOf(each.url)}`),
      requests,
    );
  });
}

for (const status of [408, 409, 429, 500, 503]) {
  test(`a store that answers ${status} is asked again`, async (t) => {
    const { url, asked } = await serverOf(t, (_, answer) => answerJson(answer, {}, asked.length === 1 ? status : 200));
    await new GcsStore('tables', { url, credentials: token }).put('a', Buffer.from('x'));
    assert.equal(asked.length, 2);
  });
}

test('a store that denies access is asked once, and its answer is not taken for an object that is missing', async (t) => {
  const { url, asked } = await serverOf(t, (_, answer) => answerJson(answer, { error: { message: 'not yours' } }, 403));
  const store = new GcsStore('tables', { url, credentials: token });
  await assert.rejects(store.get('a'), { kind: 'StorageUnavailable', message: /denies access/ });
  assert.equal(asked.length, 1);
});

test('no request is sent on to another server (P9)', async (t) => {
  const other = await serverOf(t, empty);
  const { url } = await serverOf(t, (_, answer) => answer.writeHead(307, { location: other.url }).end());
  const store = new GcsStore('tables', { url, credentials: token });
  await assert.rejects(store.put('a', Buffer.from('x')), { kind: 'StorageUnavailable' });
  assert.equal(other.asked.length, 0);
});

test('a copy that takes the store several requests is followed to its end', async (t) => {
  const { url, asked } = await serverOf(t, (_, answer) =>
    answerJson(answer, asked.length === 1 ? { done: false, rewriteToken: 'so far' } : { done: true }),
  );
  await new GcsStore('tables', { url, credentials: token }).copy('a', 'b');
  assert.deepEqual(
    asked.map((each) => new URL(each.url, url).searchParams.get('rewriteToken')),
    [null, 'so far'],
  );
});

interface Upload {
  readonly content: Buffer;
  /** The most that the store keeps of each part. */
  readonly keepsBytes: number;
  readonly losesAnswer: (part: number) => boolean;
}

/** As Google describes its uploads in parts: a store keeps the first bytes of a part, and passes over those that it has. */
function keeping({ content, keepsBytes, losesAnswer }: Upload): { answering: Answering; kept: () => Buffer } {
  const kept = Buffer.alloc(content.length);
  let [end, parts] = [0, 0];
  const answering: Answering = ({ method, url, headers, body }, answer) => {
    if (method === 'POST') {
      answer.writeHead(200, { location: `http://${headers.host}${url}&upload_id=1` });
      return void answer.end();
    }
    const start = Number(/bytes (\d+)-/.exec(headers['content-range'] ?? '')?.[1]);
    if (start <= end) {
      const next = Math.min(start + body.length, end + keepsBytes);
      body.copy(kept, start, 0, next - start);
      end = Math.max(end, next);
    }
    parts += 1;
    if (losesAnswer(parts)) return void answer.destroy();
    answer.writeHead(end === content.length ? 200 : 308, end === 0 ? {} : { range: `bytes=0-${end - 1}` });
    answer.end();
  };
  return { answering, kept: () => kept };
}

test('a large file arrives whole where a store keeps a part of a part, and answers get lost (P1)', async (t) => {
  const content = randomBytes(18 * 2 ** 20);
  const path = join(folderOf(t), 'large');
  writeFileSync(path, content);
  const { answering, kept } = keeping({ content, keepsBytes: 5 * 2 ** 20, losesAnswer: (part) => part === 2 });
  const { url, asked } = await serverOf(t, answering);
  await new GcsStore('tables', { url, credentials: token }).put('large', { path });
  assert.ok(kept().equals(content));
  const authorized = asked.map(({ method, headers }) => `${method} ${headers.authorization}`);
  assert.deepEqual([...new Set(authorized)], ['POST Bearer t', 'PUT undefined']);
});

for (const [what, losesAnswer] of [
  ['that keeps nothing', false],
  ['whose answers get lost', true],
] as const) {
  test(`an upload to a store ${what} ends, and the secret URI of its session is in no error (P9)`, async (t) => {
    const content = randomBytes(9 * 2 ** 20);
    const path = join(folderOf(t), 'large');
    writeFileSync(path, content);
    const { answering } = keeping({ content, keepsBytes: 0, losesAnswer: () => losesAnswer });
    const { url, asked } = await serverOf(t, answering);
    const store = new GcsStore('tables', { url, credentials: token });
    await assert.rejects(store.put('large', { path }), storeErrorWithout('upload_id'));
    assert.match(asked[1]?.url ?? '', /upload_id=1/);
  });
}
