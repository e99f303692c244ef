import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeSchema, endOfStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { arrowStream, startTestService, type TestService } from '#test/fixtures/service.ts';
import { eventually } from '#test/http/eventually.ts';
import { sampleBatch, sampleSchema, sampleStream } from '#test/http/sample-stream.ts';
import { entriesUnder, openStored } from '#test/http/stored.ts';
import { Upload } from '#test/http/upload-client.ts';

const KiB = 2 ** 10;
const MiB = 2 ** 20;
const int64 = { kind: 'int', bitWidth: 64, signed: true } as const;
const utf8 = { kind: 'utf8' } as const;

const schemaMessage = (...fields: Parameters<typeof field>[]): Buffer =>
  encodeSchema(schemaOf(fields.map((of) => field(...of))));

/** What a service may have taken of an endless body, most of it buffers of the two kernels, when the refusal arrives. */
const fewBytes = 8 * MiB;

describe('a hopeless upload is answered while its body has no end in sight (P7)', () => {
  const later = afterSuite();
  let service: TestService;
  let authorization: string;
  before(async () => {
    service = await startTestService(later);
    authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    assert.equal((await service.post('/v1/table/there/create', sampleStream(3))).status, 200);
    assert.equal((await service.post('/v1/table/promised/declare', {})).status, 200);
  });

  const hopeless: readonly {
    readonly why: string;
    readonly path: string;
    readonly schema?: Buffer;
    readonly status: number;
    readonly error: RegExp;
  }[] = [
    {
      why: 'a create of a type that cannot be stored',
      path: 'new/create',
      schema: schemaMessage(['id', int64], ['span', { kind: 'interval', unit: 'day_time' }]),
      status: 400,
      error: /span: type interval\(day_time\) cannot be read back/,
    },
    { why: 'a create of an existing table', path: 'there/create', status: 409, error: /'there' already exists/ },
    { why: 'a create in a missing namespace', path: 'nowhere$t/create', status: 404, error: /namespace .*nowhere/ },
    {
      why: 'a merge with an unknown column',
      path: 'there/merge_insert?on=id',
      schema: schemaMessage(['id', int64], ['extra', utf8]),
      status: 400,
      error: /column extra does not exist/,
    },
    {
      why: 'a merge with a wrong type',
      path: 'there/merge_insert?on=id',
      schema: schemaMessage(['id', int64], ['payload', utf8]),
      status: 400,
      error: /column payload is binary in the table and utf8 in the source/,
    },
    {
      why: 'a merge on a column that the source lacks',
      path: 'there/merge_insert?on=id',
      schema: schemaMessage(['payload', { kind: 'binary' }]),
      status: 400,
      error: /source has no column id/,
    },
    { why: 'a merge on an unknown column', path: 'there/merge_insert?on=key', status: 400, error: /no column key/ },
    {
      why: 'a merge on a column that a declared table would lack',
      path: 'promised/merge_insert?on=key',
      status: 400,
      error: /source has no column key/,
    },
    {
      why: 'a merge into an unknown branch',
      path: 'there/merge_insert?on=id&branch=none',
      status: 404,
      error: /no such branch/,
    },
    { why: 'a merge into an unknown table', path: 'none/merge_insert?on=id', status: 404, error: /'none' does not/ },
  ];

  for (const { why, path, schema = sampleSchema, status, error } of hopeless) {
    test(`${why}: ${status}`, async () => {
      const upload = new Upload(`${service.url}/v1/table/${path}`, { authorization, 'content-type': arrowStream });
      await upload.write(schema);
      const batch = sampleBatch(0, 16, 4 * KiB);
      while (!upload.isOver) {
        await upload.write(batch);
        assert.ok(upload.sentBytes < fewBytes, `no answer after ${upload.sentBytes} bytes`);
      }
      const answer = await upload.answer;
      assert.equal(answer.status, status);
      assert.match(String(answer.body.error), error);
    });
  }

  test('nothing of them is left', async () => {
    const { body } = await service.get('/v1/namespace/$/table/list');
    assert.deepEqual(body.tables, ['promised', 'there']);
    assert.deepEqual(
      new Set(entriesUnder(service.tablesFolder).map((path) => path.split('/')[0])),
      new Set(['there.lance']),
    );
    assert.equal((await service.get<number>('/v1/table/there/count_rows')).body, 3);
  });
});

const rowsPerBatch = 8;
const batchOf = (number: number): Buffer => sampleBatch(number * rowsPerBatch, rowsPerBatch, 8 * KiB);

/** Files of rows, of which each chunk makes one. */
const dataFiles = (service: TestService): number =>
  entriesUnder(service.tablesFolder).filter((path) => /\/data\/[^/]+\.lance$/.test(path)).length;

describe('a create of any size is published only when whole (P1)', () => {
  const later = afterSuite();
  let service: TestService;
  let authorization: string;
  before(async () => {
    service = await startTestService(later, { chunkBytes: 128 * 2 ** 10 });
    authorization = `Bearer ${await service.mint('lancegate:admin')}`;
  });

  const open = (path: string): Upload =>
    new Upload(`${service.url}/v1/table/${path}`, { authorization, 'content-type': arrowStream });

  /** Half-way: several chunks are on storage, and more is to come. */
  async function half(path: string): Promise<Upload> {
    const filesBefore = dataFiles(service);
    const upload = open(path);
    await upload.write(sampleSchema);
    for (let number = 0; number < 16; number++) await upload.write(batchOf(number));
    await eventually('several chunks are written', () => dataFiles(service) >= filesBefore + 3);
    assert.equal(upload.isOver, false);
    return upload;
  }

  async function finish(upload: Upload): Promise<number> {
    for (let number = 16; number < 20; number++) await upload.write(batchOf(number));
    await upload.write(endOfStream);
    const { status, body } = await upload.end();
    assert.equal(status, 200, JSON.stringify(body));
    return 20 * rowsPerBatch;
  }

  const count = async (table: string): Promise<unknown> =>
    (await service.get<unknown>(`/v1/table/${table}/count_rows`)).body;

  const statusOf = async (path: string, body: object = {}): Promise<number> =>
    (await service.post(`/v1/table/${path}`, body)).status;

  test('is version 1 with one transaction, in however many chunks it came, and the next merge makes version 2', async () => {
    const rows = await finish(await half('whole/create'));
    const folder = join(service.tablesFolder, 'whole.lance');
    assert.ok(readdirSync(join(folder, 'data')).length > 3, 'it came in several chunks');
    for (const [name, count] of [
      ['_versions', 1],
      ['_transactions', 1],
    ] as const) {
      assert.equal(readdirSync(join(folder, name)).filter((file) => !file.endsWith('.json')).length, count, name);
    }
    assert.ok(!readdirSync(folder).includes('lancegate=staging'), 'nothing is left of the way there');
    const table = await (await connect(service.tablesFolder)).openTable('whole');
    assert.deepEqual(
      [(await table.listVersions()).map(({ version }) => version), await table.countRows()],
      [[1], rows],
    );
    const { body } = await service.post('/v1/table/whole/merge_insert?on=id', sampleStream(1));
    assert.equal(body.version, 2);
    await table.checkout(1);
    assert.equal(await table.countRows(), rows);
    assert.equal(await statusOf('whole/drop'), 200);
  });

  test('while it streams no reader sees it and its name is taken; then it is there with every row', async () => {
    const upload = await half('big/create');
    assert.equal(await statusOf('big/describe'), 404);
    assert.equal(await statusOf('big/exists'), 404);
    assert.equal((await service.get('/v1/table/big/count_rows')).status, 404);
    assert.deepEqual((await service.get('/v1/namespace/$/table/list')).body.tables, []);
    assert.deepEqual((await service.get('/v1/table')).body.tables, []);
    assert.equal(await statusOf('big/merge_insert?on=id', sampleStream(1)), 404);
    for (const mode of ['create', 'exist_ok', 'overwrite']) {
      assert.equal(await statusOf(`big/create?mode=${mode}`, sampleStream(1)), 409, mode);
    }
    const rows = await finish(upload);
    assert.equal(await count('big'), rows);
    const stored = await (await openStored(service.tablesFolder, 'big')).rows();
    assert.deepEqual(
      stored.id?.toSorted((a, b) => Number(a) - Number(b)),
      Array.from({ length: rows }, (_, i) => BigInt(i)),
    );
    assert.ok(stored.payload?.every((payload) => Buffer.alloc(8 * KiB, 'x').equals(payload as Buffer)));
  });

  test('broken off half-way it leaves no table, no file and no reservation', async () => {
    const others = entriesUnder(service.tablesFolder);
    const upload = await half('broken/create');
    await upload.breakOff();
    await eventually('its files are gone', () => entriesUnder(service.tablesFolder).length === others.length);
    assert.deepEqual(entriesUnder(service.tablesFolder), others);
    assert.equal(await statusOf('broken/describe'), 404);
    await eventually('its name is free', async () => (await statusOf('broken/create', sampleStream(5))) === 200);
    assert.equal(await count('broken'), 5);
  });

  test('refused half-way it leaves nothing either', async () => {
    const others = entriesUnder(service.tablesFolder);
    const upload = await half('refused/create');
    await upload.write(sampleSchema);
    const { status, body } = await upload.answer;
    assert.equal(status, 400);
    assert.equal(body.error, 'message 18 (schema): a second schema');
    assert.deepEqual(entriesUnder(service.tablesFolder), others);
    assert.equal(await statusOf('refused/create', sampleStream(5)), 200);
  });

  test('while an overwrite streams the old table answers; broken off it never happened', async () => {
    assert.equal(await statusOf('old/create', sampleStream(3)), 200);
    const before = (await service.post('/v1/table/old/describe', {})).body;
    const files = entriesUnder(service.tablesFolder);
    const upload = await half('old/create?mode=overwrite');
    assert.equal(await count('old'), 3);
    assert.deepEqual((await service.post('/v1/table/old/describe', {})).body, before);
    assert.equal(await statusOf('old/create?mode=overwrite', sampleStream(1)), 409);
    await upload.breakOff();
    await eventually('its files are gone', () => entriesUnder(service.tablesFolder).length === files.length);
    assert.deepEqual(entriesUnder(service.tablesFolder), files);
    assert.deepEqual((await service.post('/v1/table/old/describe', {})).body, before);
    assert.equal(await count('old'), 3);
  });

  test('what is merged while an overwrite streams is acknowledged, seen, and then replaced with the rest', async () => {
    assert.equal(await statusOf('contested/create', sampleStream(3)), 200);
    const upload = await half('contested/create?mode=overwrite');
    assert.equal(await statusOf('contested/merge_insert?on=id', sampleStream(10)), 200);
    assert.equal(await count('contested'), 10);
    const rows = await finish(upload);
    assert.equal(await count('contested'), rows);
  });

  test('several that arrive interleaved do not mix', async () => {
    const letters = ['a', 'b', 'c', 'd', 'e', 'f'];
    const uploads = letters.map((letter) => open(`letter_${letter}/create`));
    await Promise.all(uploads.map((upload) => upload.write(sampleSchema)));
    for (let number = 0; number < 20; number++) {
      const batches = letters.map((letter) => sampleBatch(number * rowsPerBatch, rowsPerBatch, 8 * KiB, letter));
      await Promise.all(uploads.map((upload, i) => upload.write(batches[i]!)));
    }
    for (const { status } of await Promise.all(uploads.map((upload) => upload.end()))) assert.equal(status, 200);
    for (const letter of letters) {
      const { id, payload } = await (await openStored(service.tablesFolder, `letter_${letter}`)).rows();
      assert.equal(new Set(id).size, 20 * rowsPerBatch);
      const expected = Buffer.alloc(8 * KiB, letter);
      assert.ok(
        payload?.every((bytes) => expected.equals(bytes as Buffer)),
        letter,
      );
    }
  });

  test('the files of a replaced table go', async () => {
    assert.equal(await statusOf('replaced/create', sampleStream(3)), 200);
    const seen = new Set<string>();
    const folders = (): string[] => entriesUnder(service.tablesFolder).filter((path) => /^replaced[^/]*$/.test(path));
    for (let round = 0; round < 3; round++) {
      assert.equal(await statusOf('replaced/create?mode=overwrite', sampleStream(round)), 200);
      assert.equal(await count('replaced'), round);
      const [folder, ...more] = folders();
      assert.deepEqual(more, []);
      seen.add(folder!);
    }
    assert.equal(seen.size, 3, 'a location is never used twice');
  });
});
