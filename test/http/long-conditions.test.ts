/** Conditions of merges that are long: in the URL, where SDKs put them, and as parts of the body. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { HeaderFields, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, startUnderPolicies, succeeded } from './checked-service.ts';
import { boundary, multipart } from './multipart-body.ts';
import { people, storedRows } from './rows.ts';

const removal = 'when_not_matched_by_source_delete_filt';
const condition = (numbers: number): string => `id IN (${Array.from({ length: numbers }, (_, i) => i + 2).join(', ')})`;

const textPart = (name: string, text: string): Buffer =>
  Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`);
const rowsPart = (rows: Buffer, name = 'rows'): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="r.arrow"\r\n\r\n`),
    rows,
    Buffer.from('\r\n'),
  ]);
const bodyOf = (...parts: readonly Buffer[]): Buffer => Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]);

describe('a long condition of a merge', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later);
  });
  /** Of the rows 1 to 4. */
  const made = async (): Promise<string> => {
    const table = `long_${++tables}`;
    succeeded(await service.post(`/v1/table/${table}/create`, people([1, 2, 3, 4], 'old')));
    return table;
  };
  const ids = async (table: string) => (await storedRows(service, table)).map(({ id }) => Number(id)).sort();
  const send = (table: string, query: string, body: Buffer, headers: HeaderFields = {}) =>
    service.post(`/v1/table/${table}/merge_insert${query}`, body, { ...multipart, ...headers });

  test('arrives in a URL of 64 KiB, which is all that clients send', async () => {
    const table = await made();
    const text = encodeURIComponent(condition(8_000));
    const url = `/v1/table/${table}/merge_insert?on=id&${removal}=${text}`;
    assert.ok(url.length > 64 * 1024 && url.length < 79 * 1024, `${url.length}`);
    succeeded(await service.post(url, people([1], 'new')));
    assert.deepEqual(await ids(table), [1]);
  });

  test('of any length comes as a part of the body, and the policy decides on what it asks for (P9)', async () => {
    const table = await made();
    const text = condition(70_000);
    const body = bodyOf(textPart('on', 'id'), textPart(removal, text), rowsPart(people([1], 'new')));
    assert.ok(text.length > 400_000);
    const counts = succeeded(await send(table, '', body));
    assert.deepEqual([counts.num_deleted_rows, await ids(table)], [3, [1]]);
  });

  test('is the same request again under its key, with another boundary', async () => {
    const table = await made();
    const parts = [textPart(removal, 'id > 2'), rowsPart(people([9], 'new'))];
    const headers = { 'idempotency-key': 'long-1' };
    const query = '?on=id&when_not_matched_insert_all=true';
    const first = succeeded(await send(table, query, bodyOf(...parts), headers));
    const other = Buffer.from(
      bodyOf(...parts)
        .toString('latin1')
        .replaceAll(boundary, 'another'),
      'latin1',
    );
    const again = { ...headers, 'content-type': 'multipart/form-data; boundary=another' };
    const second = succeeded(await send(table, query, other, again));
    assert.equal(second.version, first.version);
    refused(
      await send(table, query, bodyOf(parts[0]!, rowsPart(people([8], 'new'))), headers),
      400,
      13,
      /another body/,
    );
    refused(
      await send(table, query, bodyOf(textPart(removal, 'id > 3'), parts[1]!), headers),
      400,
      13,
      /other operation, table or parameters/,
    );
  });

  test('is in the query or in the body, and each part is what it says', async () => {
    const table = await made();
    const rows = rowsPart(people([1], 'new'));
    const refuses = async (body: Buffer, message: RegExp, query = '?on=id') =>
      refused(await send(table, query, body), 400, 13, message);
    await refuses(bodyOf(textPart('on', 'id'), rows), /^on: the query and the body both have it$/);
    await refuses(bodyOf(textPart(removal, 'true'), textPart(removal, 'true'), rows), /two parts have this name$/);
    await refuses(
      bodyOf(textPart('when_matched_updat_all', 'true'), rows),
      /^"when_matched_updat_all" is not known; did you mean when_matched_update_all\?$/,
    );
    await refuses(bodyOf(textPart('timeout', '1s'), rows), /^"timeout" is not known; it belongs in the query string$/);
    await refuses(bodyOf(textPart(removal, 'true')), /^the body has no part with the rows$/);
    await refuses(bodyOf(rows, textPart(removal, 'true')), /the rows are the last part$/);
    await refuses(bodyOf(rows, rowsPart(people([2], 'new'), 'more')), /the rows are the last part$/);
    await refuses(bodyOf(textPart(removal, '('), rows), new RegExp(`^${removal}: `));
    assert.deepEqual(await ids(table), [1, 2, 3, 4]);
  });
});

test('what parts ask for is asked of the policy as what is in the query (P9)', async (t) => {
  const policies = `
    permit (principal == Principal::"tester", action, resource);
    permit (principal == Principal::"guest", action == Action::"MergeInsertIntoTable", resource);
  `;
  const service = await startUnderPolicies((clean) => t.after(clean), policies);
  succeeded(await service.post('/v1/table/t/create', people([1, 2], 'old')));
  const headers = { ...multipart, authorization: `Bearer ${await service.mint('lancegate:read', 'guest')}` };
  const rows = rowsPart(people([1], 'new'));
  const path = '/v1/table/t/merge_insert?on=id';
  refused(
    await service.post(path, bodyOf(textPart(removal, 'true'), rows), headers),
    403,
    15,
    /DeleteFromTableBySource/,
  );
  succeeded(await service.post(path, bodyOf(textPart('when_matched_update_all_filt', 'true'), rows), headers));
});
