/** The proxy that the fault suites stand on: each fault is what it says, to a client that signs its requests. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import {
  type Fault,
  isCommit,
  onNth,
  randomFaults,
  type StoreProxy,
  startStoreProxy,
} from '#test/fixtures/store-proxy.ts';
import { Random } from '#test/model/random.ts';

const Bucket = 'tables';

describe('a proxy in front of the S3 gateway', { skip: withoutS3Gateway ?? false }, () => {
  const after = afterSuite();
  let proxy: StoreProxy;
  let client: S3Client;
  before(async () => {
    const gateway = await startS3Gateway(after);
    proxy = await startStoreProxy(after, gateway.storageOptions);
    const { access_key_id: accessKeyId = '', secret_access_key: secretAccessKey = '' } = gateway.storageOptions;
    client = new S3Client({
      endpoint: proxy.url,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId, secretAccessKey },
      maxAttempts: 1,
    });
    after(() => client.destroy());
  });

  const put = (Key: string, Body = 'text') =>
    client.send(new PutObjectCommand({ Bucket, Key, Body, IfNoneMatch: '*' }));
  const get = async (Key: string): Promise<string | undefined> => {
    proxy.faults = () => undefined;
    return client.send(new GetObjectCommand({ Bucket, Key })).then(
      ({ Body }) => Body?.transformToString(),
      (error: Error) => (error.name === 'NoSuchKey' ? undefined : Promise.reject(error)),
    );
  };
  const putWith = async (fault: Fault, key: string, body?: string): Promise<Error | undefined> => {
    proxy.faults = () => fault;
    return put(key, body).then(
      () => undefined,
      (error: Error) => error,
    );
  };
  const statusOf = (error: Error | undefined): unknown =>
    (error as { $metadata?: { httpStatusCode?: number } } | undefined)?.$metadata?.httpStatusCode;

  test('passes signed requests on, also of keys that have to be encoded, and a lost race is 412', async () => {
    proxy.faults = () => undefined;
    await put('plain/a b+c%ü$.txt', 'of the first');
    const lost = await put('plain/a b+c%ü$.txt', 'of the second').catch((error: Error) => error);
    assert.equal(statusOf(lost as Error), 412);
    assert.equal(await get('plain/a b+c%ü$.txt'), 'of the first');
    const large = 'x'.repeat(3 << 20);
    await put('plain/large', large);
    assert.equal(await get('plain/large'), large);
  });

  test('counts requests by method and kind of object', async () => {
    proxy.faults = () => undefined;
    proxy.reset();
    const folder = 'counted/t.lance';
    await put(`${folder}/_versions/18446744073709551614.manifest`);
    await put(`${folder}/data/0.lance`);
    await put(`${folder}/data/1.lance`);
    await put(`${folder}/_deletions/0-1-2.arrow`);
    await put(`${folder}/_transactions/0-a.txn`);
    await put(`${folder}/_indices/i/index.idx`);
    await get(`${folder}/data/0.lance`);
    await client.send(new ListObjectsV2Command({ Bucket, Prefix: folder }));
    assert.deepEqual(Object.fromEntries(proxy.counts), {
      'PUT manifest': 1,
      'PUT data': 2,
      'PUT deletion': 1,
      'PUT transaction': 1,
      'PUT index': 1,
      'GET data': 1,
      'GET list': 1,
    });
  });

  for (const kind of ['cut before', 'cut amid upload', 'error before', 'slow down'] as const) {
    test(`a request with the fault "${kind}" is not done`, async () => {
      const error = await putWith({ kind }, `not-done/${kind}`, 'x'.repeat(100_000));
      const status = { 'error before': 500, 'slow down': 503 }[kind as string];
      assert.equal(statusOf(error), status, String(error));
      assert.equal(await get(`not-done/${kind}`), undefined);
    });
  }

  for (const kind of ['lost answer', 'error after'] as const) {
    test(`a request with the fault "${kind}" is done, and its client does not know`, async () => {
      const error = await putWith({ kind }, `done/${kind}`);
      assert.equal(statusOf(error), kind === 'error after' ? 500 : undefined, String(error));
      assert.equal(await get(`done/${kind}`), 'text');
    });
  }

  test('an answer that is cut short is no answer', async () => {
    await putWith({ kind: 'stalled', until: Promise.resolve() }, 'short', 'x'.repeat(100_000));
    proxy.faults = () => ({ kind: 'cut amid answer' });
    await assert.rejects(async () => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: 'short' }));
      await Body?.transformToString();
    });
  });

  test('a stalled answer comes when it may, of what was done at once', async () => {
    const answered = Promise.withResolvers<void>();
    const putting = putWith({ kind: 'stalled', until: answered.promise }, 'stalled');
    while ((await get('stalled')) === undefined);
    answered.resolve();
    assert.equal(await putting, undefined);
  });

  test('a request that is held is done when it may, and answered', async () => {
    const released = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    proxy.faults = () => {
      arrived.resolve();
      return { kind: 'held', until: released.promise };
    };
    const putting = put('held');
    await arrived.promise;
    assert.equal(await get('held'), undefined);
    released.resolve();
    await putting;
    assert.equal(await get('held'), 'text');
  });

  test('a late request is done long after its client saw the connection end, unless another came before it', async () => {
    const released = Promise.withResolvers<void>();
    assert.ok(await putWith({ kind: 'late', until: released.promise }, 'late/free', 'of the zombie'));
    assert.ok(await putWith({ kind: 'late', until: released.promise }, 'late/taken', 'of the zombie'));
    assert.equal(await get('late/free'), undefined);
    await put('late/taken', 'of the next');
    released.resolve();
    await proxy.delivered();
    assert.deepEqual([await get('late/free'), await get('late/taken')], ['of the zombie', 'of the next']);
  });

  test('a script picks the n-th commit', async () => {
    const versions = ['3', '2', '1'].map((name) => `nth/_versions/${name}.manifest`);
    proxy.reset();
    proxy.faults = onNth(2, isCommit, { kind: 'lost answer' });
    await put('nth/data/0.lance');
    const outcomes = [];
    for (const key of versions)
      outcomes.push(
        await put(key).then(
          () => 'ok',
          () => 'lost',
        ),
      );
    assert.deepEqual(outcomes, ['ok', 'lost', 'ok']);
    assert.deepEqual(Object.fromEntries(proxy.injected), { 'lost answer': 1 });
    assert.equal(await get(versions[1] as string), 'text');
  });

  test('a seed draws the same faults again', () => {
    const request = { method: 'PUT', path: '/', kind: 'data', isConditional: false } as const;
    const draw = (seed: number) => {
      const faults = randomFaults(new Random(seed), {
        percent: 50,
        weights: [
          [1, 'lost answer'],
          [2, 'slow down'],
        ],
        longestMs: 10,
      });
      return Array.from({ length: 50 }, () => faults(request)?.kind);
    };
    assert.deepEqual(draw(7), draw(7));
    assert.notDeepEqual(draw(7), draw(8));
    assert.equal(new Set(draw(7)).size, 3);
  });

  test('holds every answer back by the delay', async () => {
    proxy.faults = () => undefined;
    proxy.delayMs = 30;
    const start = performance.now();
    await put('delayed');
    proxy.delayMs = 0;
    assert.ok(performance.now() - start >= 29);
  });
});
