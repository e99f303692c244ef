/** What destroys rows has actions of its own, and a refusal says which one was missing. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const noArrow = Buffer.from('this is no Arrow stream');

const policies = `
permit (principal == Principal::"tester", action, resource);

// Adds and changes rows, and destroys none.
permit (
  principal == Principal::"loader",
  action in [Action::"CreateTable", Action::"MergeInsertIntoTable", Action::"RegisterTable"],
  resource
);

// The same, and may destroy on one branch.
permit (principal == Principal::"brancher", action, resource) when { context.branch == "dev" };
permit (principal == Principal::"brancher", action == Action::"MergeInsertIntoTable", resource);
`;

describe('destroying is allowed by name (P9)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev' }));
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:admin', subject)}` });
  const rows = async () => (await service.post<unknown>('/v1/table/t/count_rows')).body;

  test('CreateTable alone does not overwrite, and no byte of the body is looked at', async () => {
    const loader = await as('loader');
    for (const mode of ['overwrite', 'OVERWRITE', '%22Overwrite%22']) {
      const answer = await service.post(`/v1/table/t/create?mode=${mode}`, noArrow, loader);
      refused(answer, 403, 15, /^OverwriteTable on table 't' is not allowed$/);
    }
    assert.equal(await rows(), 2);
    succeeded(await service.post('/v1/table/fresh/create', people([1], 'x'), loader));
    const found = await service.post('/v1/table/fresh/create?mode=exist_ok', people([1], 'x'), loader);
    refused(found, 403, 15, /^DescribeTable on table 'fresh' is not allowed$/);
    succeeded(await service.post('/v1/table/fresh/create?mode=overwrite', people([1, 2, 3], 'x')));
  });

  test('whether there is anything to overwrite makes no difference', async () => {
    const answer = await service.post('/v1/table/absent/create?mode=overwrite', people([1], 'x'), await as('loader'));
    refused(answer, 403, 15, /^OverwriteTable on table 'absent' is not allowed$/);
  });

  test('MergeInsertIntoTable alone does not delete by source, however it is asked for', async () => {
    const loader = await as('loader');
    for (const asked of [
      'when_not_matched_by_source_delete',
      'when_not_matched_by_source_delete=TRUE',
      'when_matched_update_all=true&when_not_matched_by_source_delete=1',
      'when_not_matched_by_source_delete_filt=id%3E1',
      'when_not_matched_by_source_delete=false&when_not_matched_by_source_delete_filt=id%3E1',
    ]) {
      const answer = await service.post(`/v1/table/t/merge_insert?on=id&${asked}`, noArrow, loader);
      refused(answer, 403, 15, /^DeleteFromTableBySource on table 't' is not allowed$/);
    }
    assert.equal(await rows(), 2);
    const harmless = 'when_matched_update_all=true&when_not_matched_by_source_delete=false';
    succeeded(await service.post(`/v1/table/t/merge_insert?on=id&${harmless}`, people([1], 'y'), loader));
  });

  test('deletion by source is asked for on the branch that the merge is for', async () => {
    const brancher = await as('brancher');
    const merge = (branch: string) =>
      service.post(
        `/v1/table/t/merge_insert?on=id&when_not_matched_by_source_delete=true&branch=${branch}`,
        people([1], 'x'),
        brancher,
      );
    refused(await merge('main'), 403, 15, /^DeleteFromTableBySource on table 't' is not allowed$/);
    assert.equal(succeeded(await merge('dev')).num_deleted_rows, 1);
    assert.equal(await rows(), 2);
  });

  test('RegisterTable alone takes no name away from the table that has it', async () => {
    const body = { location: 't.lance', mode: 'Overwrite' };
    const answer = await service.post('/v1/table/t/register', body, await as('loader'));
    refused(answer, 403, 15, /^DeregisterTable on table 't' is not allowed$/);
    assert.equal(await rows(), 2);
  });
});

describe('a refusal under the default policies', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
  });
  const as = async (scope: string) => ({ authorization: `Bearer ${await service.mint(scope)}` });

  test('says which scope would be enough, in the body and in the challenge', async () => {
    for (const [scope, path, body, says] of [
      ['lancegate:write', 'drop', {}, "DropTable on table 't' is not allowed; it needs the scope lancegate:admin"],
      ['lancegate:read', 'create?mode=overwrite', noArrow, /^CreateTable .*; it needs the scope lancegate:write$/],
      ['openid', 'describe', {}, /^DescribeTable .*; it needs the scope lancegate:read$/],
      ['openid', 'describe', { branch: 'dev' }, /^DescribeTable on branch 'dev' of .*; it needs the scope/],
    ] as const) {
      const answer = await service.post(`/v1/table/t/${path}`, body, await as(scope));
      refused(answer, 403, 15, typeof says === 'string' ? new RegExp(`^${says.replace('.', '\\.')}$`) : says);
      const [needed] = /lancegate:\w+$/.exec(String(answer.body.error)) ?? [];
      assert.ok(answer.headers.get('www-authenticate')?.endsWith(`, scope="${needed}"`));
    }
  });

  test('is none for lancegate:write, which overwrites and deletes by source', async () => {
    const writer = await as('lancegate:write');
    const merge = '/v1/table/t/merge_insert?on=id&when_not_matched_by_source_delete=true';
    assert.equal(succeeded(await service.post(merge, people([1], 'x'), writer)).num_deleted_rows, 1);
    succeeded(await service.post('/v1/table/t/create?mode=overwrite', people([1, 2, 3], 'x'), writer));
  });
});
