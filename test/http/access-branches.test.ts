/** What a policy hides of branches is neither listed nor shown in any other answer. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Sees main and two kinds of branches.
permit (principal == Principal::"guest", action in [Action::"read", Action::"MaintainTable"], resource);
forbid (principal == Principal::"guest", action, resource) when { context.branch like "secret*" };
`;

interface Listing {
  readonly branches: Readonly<Record<string, { readonly parentBranch?: string; readonly parentVersion: number }>>;
  readonly page_token?: string;
}

describe('a branch that a policy hides (P9)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
    const branches: readonly (readonly [name: string, parent?: string])[] = [
      ['alpha'],
      ['secret-1'],
      ['beta', 'secret-1'],
      ['secret-2', 'alpha'],
      ['secret-3'],
      ['zeta', 'alpha'],
    ];
    for (const [name, parent] of branches) {
      succeeded(await service.post('/v1/table/t/branches/create', { name, from_branch: parent }));
    }
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:admin', subject)}` });
  const list = async (subject: string, query = ''): Promise<Listing> => {
    const answer = await service.post(`/v1/table/t/branches/list${query}`, {}, await as(subject));
    return succeeded(answer) as unknown as Listing;
  };

  test('is not listed, and is not named as the parent of one that is', async () => {
    assert.deepEqual(Object.keys((await list('tester')).branches).length, 6);
    const { branches } = await list('guest');
    assert.deepEqual(Object.keys(branches), ['alpha', 'beta', 'zeta']);
    assert.deepEqual(
      Object.values(branches).map(({ parentBranch }) => parentBranch),
      [undefined, undefined, 'alpha'],
    );
    assert.doesNotMatch(JSON.stringify(branches), /secret/);
    assert.equal((await list('tester')).branches.beta?.parentBranch, 'secret-1');
  });

  test('leaves no trace in the pages: none is short, and no token leads nowhere', async () => {
    const pages: (readonly string[])[] = [];
    let token: string | undefined;
    do {
      const page = await list('guest', `?limit=1${token === undefined ? '' : `&page_token=${token}`}`);
      pages.push(Object.keys(page.branches));
      token = page.page_token;
    } while (token !== undefined);
    assert.deepEqual(pages, [['alpha'], ['beta'], ['zeta']]);
    const two = await list('guest', '?limit=2');
    assert.deepEqual([Object.keys(two.branches), two.page_token], [['alpha', 'beta'], 'beta']);
  });

  test('has transactions that are as unknown as any other', async () => {
    const merge = async (branch: string) =>
      succeeded(await service.post(`/v1/table/t/merge_insert?on=id&branch=${branch}`, people([3], 'y'))).transaction_id;
    const [seen, hidden] = [await merge('alpha'), await merge('secret-1')];
    const guest = await as('guest');
    succeeded(await service.post(`/v1/transaction/${seen}/describe`, {}, guest));
    succeeded(await service.post(`/v1/transaction/${hidden}/describe`));
    const answer = await service.post(`/v1/transaction/${hidden}/describe`, {}, guest);
    refused(answer, 404, 10);
    const unknown = await service.post('/v1/transaction/unknown/describe', {}, guest);
    assert.equal(JSON.stringify(answer.body).replaceAll(String(hidden), 'unknown'), JSON.stringify(unknown.body));
  });

  test('is not in the report of a maintenance', async () => {
    for (let round = 0; round < 3; round += 1) {
      for (const branch of ['secret-1', 'alpha']) {
        const rows = people([10 + round], 'y');
        succeeded(await service.post(`/v1/table/t/merge_insert?on=id&branch=${branch}`, rows));
      }
    }
    const reported = async (subject: string) => {
      const { jobs } = succeeded(await service.post('/v1/table/t/maintain', {}, await as(subject)));
      return [...new Set((jobs as { branch: string }[]).map(({ branch }) => branch))].sort();
    };
    assert.deepEqual(await reported('guest'), ['alpha', 'beta', 'main', 'zeta']);
    assert.ok((await reported('tester')).includes('secret-1'));
  });

  test('has versions that no other branch shows, and the refusals are the same whether it is there or not', async () => {
    const guest = await as('guest');
    const { version } = succeeded(
      await service.post('/v1/table/t/merge_insert?on=id&branch=secret-3', people([7, 8, 9], 'z')),
    );
    const count = (body: object) => service.post('/v1/table/t/count_rows', body, guest);
    refused(await count({ version }), 404, 11);
    refused(await count({ branch: 'zeta', version }), 404, 11);
    const [there, absent] = [await count({ branch: 'secret-3' }), await count({ branch: 'secret-9' })];
    refused(there, 403, 15);
    assert.equal(JSON.stringify(there.body).replaceAll('secret-3', 'secret-9'), JSON.stringify(absent.body));
  });
});
