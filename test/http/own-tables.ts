import { before, beforeEach } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

/** Of a suite: a service under these policies, on which each test has a table of its own, at version 1 with rows of these ids. */
export interface OwnTables {
  readonly later: ReturnType<typeof afterSuite>;
  readonly service: TestService;
  readonly table: string;
  post(path: string, body?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>;
}

export function ownTablesUnder(policies: string, ids: readonly number[]): OwnTables {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startUnderPolicies(later, policies);
  });
  beforeEach(async () => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, people(ids, 'x')));
  });
  return {
    later,
    get service() {
      return service;
    },
    get table() {
      return `t${tables}`;
    },
    post: (path, body = {}, headers = {}) => service.post(`/v1/table/t${tables}/${path}`, body, headers),
  };
}
