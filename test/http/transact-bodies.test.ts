/** Bodies of `transact` that no honest client sends: each is refused, and leaves nothing. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { bodyOf, boundary, multipart, type Part, part, transact } from './multipart-body.ts';
import { people, storedRows } from './rows.ts';

describe('a body of several operations that is malformed is refused and leaves nothing', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { MAX_MERGE_SIZE: '12MiB' });
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'old')));
  });
  const path = '/v1/table/t/transact';
  const remove = { operation: 'delete', predicate: 'true' };
  const insert = (source: string) => ({ operation: 'insert', source });
  const rows = people([3], 'new');
  const numbered = (count: number, content: (index: number) => object) =>
    Array.from({ length: count }, (_, index) => part(`p${index}`, content(index)));

  const cases: readonly (readonly [what: string, parts: readonly Part[], says: RegExp])[] = [
    ['no part', [], /must begin/],
    ['a source alone', [part('r', rows)], /must begin/],
    ['a source before its operation', [part('r', rows), part('a', insert('r'))], /must begin/],
    ['an operation after a source', [part('a', insert('r')), part('r', rows), part('b', remove)], /before all sources/],
    ['10 000 operations', numbered(10_000, () => remove), /100 operations/],
    ['10 000 sources', [part('a', insert('r')), ...numbered(10_000, () => rows)], /no operation names/],
    ['two operations of one name', [part('a', remove), part('a', remove)], /two parts/],
    ['two sources of one name', [part('a', insert('r')), part('r', rows), part('r', rows)], /two parts/],
    ['a source with the name of an operation', [part('a', insert('a'))], /source a/],
    ['a source that two operations use', [part('a', insert('r')), part('b', insert('r')), part('r', rows)], /source r/],
    ['a source that is missing', [part('a', remove), part('b', insert('r'))], /operation b: the body has no source r/],
    ['a source that none uses', [part('a', remove), part('r', rows)], /no operation names/],
    [
      'a source that is no stream',
      [part('a', insert('r')), part('r', Buffer.from('x'.repeat(64)))],
      /operation a: .*Arrow/,
    ],
    ['a source that is empty', [part('a', insert('r')), part('r', Buffer.of())], /operation a: .*empty/],
    ['a source that is cut off', [part('a', insert('r')), part('r', rows.subarray(0, -60))], /operation a: /],
    ['an operation without a kind', [part('a', {})], /operation a: .*lacks operation/],
    ['an unknown operation', [part('a', { operation: 'constructor' })], /must be one of/],
    ['a list', [part('a', [remove])], /JSON object/],
    ['an unknown field', [part('a', { ...remove, branch: 'dev' })], /"branch"/],
    [
      'SQL that is not offered',
      [part('a', { operation: 'delete', predicate: '(SELECT 1)' })],
      /operation a: predicate/,
    ],
    [
      'merge flags that do nothing',
      [part('a', { operation: 'merge_insert', on: 'id', source: 'r', when_not_matched_insert_all: false })],
      /nothing/,
    ],
  ];
  for (const [what, parts, says] of cases) {
    test(what, async () => {
      refused(await transact(service, 't', parts), 400, 13, says);
      assert.equal((await storedRows(service, 't')).length, 2);
    });
  }

  const raw: readonly (readonly [what: string, body: string, headers: Record<string, string>, says: RegExp])[] = [
    ['a body that is not multipart', '{}', { 'content-type': 'application/json' }, /multipart\/form-data/],
    ['multipart without a boundary', '{}', { 'content-type': 'multipart/form-data' }, /boundary/],
    [
      'multipart within multipart',
      `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--${boundary}--`,
      multipart,
      /content-type/,
    ],
    [
      'a name with a control character',
      `--${boundary}\r\nContent-Disposition: form-data; name="a\x1b[31m"\r\n\r\n{}\r\n--${boundary}--`,
      multipart,
      /malformed/,
    ],
    [
      'JSON that is none',
      `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{\r\n--${boundary}--`,
      multipart,
      /not JSON/,
    ],
    [
      'no end',
      bodyOf([part('a', remove)])
        .toString()
        .replace(`--${boundary}--\r\n`, ''),
      multipart,
      /ends within part 1/,
    ],
  ];
  for (const [what, body, headers, says] of raw) {
    test(what, async () => {
      refused(await service.post(path, Buffer.from(body), headers), 400, 13, says);
      assert.equal((await storedRows(service, 't')).length, 2);
    });
  }

  test('more JSON than a body may have, and more bytes than a merge may have, are too large (P7)', async () => {
    const long = numbered(36, () => ({ ...remove, predicate: `name = '${'x'.repeat(30_000)}'` }));
    const json = await transact(service, 't', long);
    assert.equal(json.status, 413, JSON.stringify(json.body));
    const large = part('r', Buffer.alloc(13 * 2 ** 20));
    const body = await transact(service, 't', [part('a', insert('r')), large]);
    assert.equal(body.status, 413, JSON.stringify(body.body));
    assert.equal((await storedRows(service, 't')).length, 2);
  });

  test('a deadline covers all operations, and leaves nothing of them (P6)', async () => {
    const slow = numbered(100, (index) => ({ operation: 'update', updates: [['name', `'${index}'`]] }));
    refused(await transact(service, 't', slow, { 'x-request-timeout-ms': '20' }), 503, 17);
    assert.deepEqual(
      (await storedRows(service, 't')).map(({ name }) => name),
      ['old', 'old'],
    );
  });

  test('what was refused leaves memory and permits free for the next', async () => {
    for (let round = 0; round < 3; round++) {
      const answer = await transact(service, 't', [
        part('a', { operation: 'delete', predicate: 'id > 2' }),
        part('b', insert('r')),
        part('r', rows),
      ]);
      assert.equal(succeeded(answer).version, 2 + round);
    }
  });
});
