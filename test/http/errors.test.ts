import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { checkErrorBody, refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows } from './rows.ts';
import { holdTurn } from './stalled-reads.ts';

/** Every refusal in here is also checked for its seven fields and for leaks, by `startCheckedService`. */
describe('each kind of error of the specification comes with its status, type and title', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { PRINCIPAL_SHARE: '100%' });
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'first')));
  });

  test('400 for a request that cannot be meant', async () => {
    refused(await service.post('/v1/table/t/merge_insert', people([1], 'x')), 400, 13, /^on: .*required/);
    refused(await service.post('/v1/table/other/create?mode=maybe', people([1], 'x')), 400, 13, /^mode: /);
  });

  test('rows are counted by their addresses; 400 for what the engine cannot do with an offset', async () => {
    const count = (predicate: string) => service.post<unknown>('/v1/table/t/count_rows', { predicate });
    for (const predicate of ['_rowid = 0', '_rowaddr IN (0)', '_rowoffset = 0', '_rowid = 0 AND id = 1']) {
      assert.equal((await count(predicate)).body, 1, predicate);
    }
    refused(await service.post('/v1/table/t/count_rows', { predicate: '_rowoffset < 1' }), 400, 13, /_rowoffset/);
  });

  test('400 for SQL that would end, or hold up, the process that runs it, before it runs (P12)', async () => {
    const deadly = [
      `id > 1${'-1'.repeat(1000)}`,
      'length(repeat(name, 2000000000)) > 5',
      'generate_series(0, 3e9) IS NULL',
    ];
    for (const predicate of deadly) {
      refused(await service.post('/v1/table/t/count_rows', { predicate }), 400, 13, /^predicate: .*\(column \d+\)$/);
      const filter = `when_not_matched_by_source_delete_filt=${encodeURIComponent(predicate)}`;
      const merge = await service.post(`/v1/table/t/merge_insert?on=id&${filter}`, people([1], 'x'));
      refused(merge, 400, 13, /^when_not_matched_by_source_delete_filt: .*\(column \d+\)$/);
    }
  });

  test('400 for a cast that fails on a row, without the cell', async () => {
    const answer = await service.post('/v1/table/t/count_rows', { predicate: 'CAST(name AS int) > 1' });
    refused(answer, 400, 13, /on a row: a value does not fit the type it is converted to$/);
  });

  test('401 for a request without a valid credential, with the challenge', async () => {
    for (const operation of ['merge_insert?on=id', 'create']) {
      const answer = await service.post(`/v1/table/t/${operation}`, people([1], 'x'), { authorization: 'Bearer no' });
      refused(answer, 401, 16);
      assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer realm="lancegate", error="invalid_token"/);
    }
  });

  test('403 for a principal without the right', async () => {
    const authorization = `Bearer ${await service.mint('lancegate:read')}`;
    for (const operation of ['merge_insert?on=id', 'create']) {
      const answer = await service.post(`/v1/table/t/${operation}`, people([1], 'x'), { authorization });
      refused(answer, 403, 15, /on table 't' is not allowed/);
      assert.match(answer.headers.get('www-authenticate') ?? '', /error="insufficient_scope"/);
    }
  });

  test('404 for a table, a branch and a namespace that are not there', async () => {
    refused(await service.post('/v1/table/none/merge_insert?on=id', people([1], 'x')), 404, 4, /'none'/);
    refused(await service.post('/v1/table/t/merge_insert?on=id&branch=dev', people([1], 'x')), 404, 22);
    refused(await service.post('/v1/table/no$t/create', people([1], 'x')), 404, 1);
  });

  test('409 for a table that is there already', async () => {
    refused(await service.post('/v1/table/t/create', people([1], 'x')), 409, 5, /'t' already exists/);
  });

  test('503 with a time to come back when as many merges wait as may (P7)', async (t) => {
    const merge = () => service.post('/v1/table/t/merge_insert?on=id', people([1], 'crowd'));
    const { release, holder } = await holdTurn(service, 't', (clean) => t.after(clean), merge);
    const merges = Array.from({ length: 513 }, merge);
    const first = await Promise.race(merges);
    refused(first, 503, 17, /too many writers/);
    assert.equal(first.headers.get('retry-after'), '1');
    release();
    await holder;
    for (const answer of await Promise.all(merges)) if (answer !== first) succeeded(answer);
  });

  test('500 where the disk fails; the caller gets the id under which the log has the cause (P6)', async () => {
    succeeded(await service.post('/v1/table/torn/create', people([1, 2], 'first')));
    const folder = join(service.tablesFolder, 'torn.lance', 'data');
    const file = join(folder, readdirSync(folder)[0] ?? '');
    const bytes = readFileSync(file);
    truncateSync(file, 10);
    const requestId = randomUUID();
    const headers = { 'x-request-id': requestId };
    refused(
      await service.post('/v1/table/torn/merge_insert?on=id', people([1], 'x'), headers),
      500,
      18,
      RegExp(requestId),
    );
    const logged = service.log.find((line) => line.includes(requestId) && line.includes('"level":"error"'));
    assert.match(logged ?? '', /Failed to execute merge insert/);
    writeFileSync(file, bytes);
    assert.equal((await storedRows(service, 'torn')).filter(({ name }) => name === 'first').length, 2);
    succeeded(await service.post('/v1/table/torn/merge_insert?on=id', people([1], 'y')));
  });

  for (const isOpen of [true, false]) {
    test(`500 where the files of a table are gone, ${isOpen ? 'while it is open' : 'before it was opened'}`, async () => {
      const table = `gone_${isOpen}`;
      succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'first')));
      if (isOpen) succeeded(await service.post(`/v1/table/${table}/describe`));
      const folder = join(service.tablesFolder, `${table}.lance`);
      renameSync(folder, `${folder}.aside`);
      for (const path of ['merge_insert?on=id', 'create?mode=exist_ok', 'describe', 'count_rows', 'branches/list']) {
        const body = path.includes('?') ? people([1], 'x') : {};
        refused(
          await service.post(`/v1/table/${table}/${path}`, body),
          500,
          19,
          /damaged on storage: its folder is missing/,
        );
      }
      renameSync(`${folder}.aside`, folder);
      succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, people([9], 'back')));
    });
  }

  test('what is wrong with the request line itself has the same body', async () => {
    const answer = await fetch(`${service.url}/v1/table/%E0%A4/create`, { method: 'POST' });
    assert.ok([400, 401].includes(answer.status), `${answer.status}`);
    checkErrorBody(answer.status, await answer.json(), '/v1/table/%E0%A4/create');
  });
});
