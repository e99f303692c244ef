/** One key on two replicas at once: the lock of a key is of a process, and namespaces have no owner. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { startCheckedService, succeeded } from '#test/http/checked-service.ts';

type Request = readonly [path: string, body: object];

interface Case {
  readonly what: string;
  /** What it needs, in each round again. */
  readonly given: readonly Request[];
  readonly request: Request;
  /** What the later of two is answered as long as the answer to the earlier is not recorded; without it, both do the work. */
  readonly refusal?: number;
}

const cases: readonly Case[] = [
  { what: 'that make a namespace', given: [], request: ['namespace/made#/create', {}], refusal: 409 },
  { what: 'that make one if it is not there', given: [], request: ['namespace/found#/create', { mode: 'exist_ok' }] },
  { what: 'that replace one', given: [], request: ['namespace/replaced#/create', { mode: 'overwrite' }] },
  {
    what: 'that drop one',
    given: [['namespace/dropped/create', {}]],
    request: ['namespace/dropped/drop', {}],
    refusal: 404,
  },
  {
    what: 'that drop one if it is there',
    given: [['namespace/skipped/create', {}]],
    request: ['namespace/skipped/drop', { mode: 'skip' }],
  },
  {
    what: 'that drop one with what is in it',
    given: [
      ['namespace/full/create', {}],
      ['table/full$a/declare', {}],
      ['table/full$b/declare', {}],
    ],
    request: ['namespace/full/drop', { behavior: 'cascade' }],
    refusal: 404,
  },
  { what: 'that declare a table', given: [], request: ['table/declared#/declare', {}] },
  {
    what: 'that rename one',
    given: [['table/old#/declare', {}]],
    request: ['table/old#/rename', { new_table_name: 'new#' }],
  },
];

const rounds = 5;

describe('of two replicas that get requests with one key at once', { skip: withoutPostgres ?? false }, () => {
  const later = afterSuite();
  let replicas: readonly [TestService, TestService];
  before(async () => {
    const catalog = await (await sharedPostgres()).newDatabase();
    const settings = { CATALOG: catalog, STORAGE_ROOT: temporaryFolder(later) };
    replicas = [await startCheckedService(later, settings), await startCheckedService(later, settings)];
  });

  const atOnce = (path: string, body: object, key: string): Promise<readonly Answer[]> =>
    Promise.all(replicas.map((replica) => replica.post(`/v1/${path}`, body, { 'idempotency-key': key })));
  /** `#` is a number that no other round has. */
  const numbered = (request: Request, round: number): Request =>
    JSON.parse(JSON.stringify(request).replaceAll('#', String(round))) as Request;

  for (const { what, given, request, refusal = 200 } of cases) {
    test(`${what}, one does it, and neither fails (P6)`, async () => {
      for (let round = 0; round < rounds; round++) {
        for (const [path, body] of given.map((each) => numbered(each, round))) {
          succeeded(await replicas[0].post(`/v1/${path}`, body));
        }
        const [path, body] = numbered(request, round);
        const key = `${path}/${round}`;
        const answers = await atOnce(path, body, key);
        const [best, worst] = answers.map(({ status }) => status).sort();
        assert.ok(best === 200 && (worst === 200 || worst === refusal), JSON.stringify(answers));
        for (const again of await atOnce(path, body, key)) {
          assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [200, 'true']);
        }
      }
    });
  }
});
