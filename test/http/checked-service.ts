/**
 * The whole service, every answer of which is checked: a refusal for its seven fields, and that it tells nothing of the machine, and
 * any other against the service's own document.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '#src/kernel/clock.ts';
import { checkDescribed } from '#test/fixtures/described-answers.ts';
import { type Answer, startTestService, type TestService, type TestSettings } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

/** The statuses that docs/errors.md names. */
const kinds: Readonly<Record<number, readonly [type: string, title: string]>> = {
  400: ['/errors/bad-request', 'Malformed request'],
  401: ['/errors/unauthorized-request', 'No valid authentication credentials for the operation'],
  403: ['/errors/forbidden-request', 'Not authorized to make this request'],
  404: ['/errors/not-found-error', 'Not found Error'],
  405: ['/errors/method-not-allowed', 'The path does not have this method'],
  406: ['/errors/unsupported-operation', 'The server does not support this operation'],
  409: ['/errors/conflict', 'The namespace has been concurrently modified'],
  410: ['/errors/gone', 'What was asked for is not there any more'],
  413: ['/errors/content-too-large', 'The body is too large'],
  500: ['/errors/server-error', 'Internal Server Error'],
  503: ['/errors/service-unavailable', 'Slow down'],
};

/** Build paths of the engine, its sources, stacks of either language, and places of ours. */
const leaks = /\/rustc|cargo|\.rs\b|\.ts:|\n\s*at |node_modules|file:\/\/|LanceError|Caused by/i;

export async function startCheckedService(
  after: (clean: () => void | Promise<void>) => void,
  settings: TestSettings = {},
  clock?: Clock,
): Promise<TestService> {
  const service = await startTestService(after, settings, clock);
  return {
    ...service,
    get url() {
      return service.url;
    },
    post: async (path, body, headers) => checked('POST', path, await service.post(path, body, headers)),
    get: async (path, headers) => checked('GET', path, await service.get(path, headers)),
  };
}

/** Policies decide, in place of the scopes. */
export function startUnderPolicies(
  after: (clean: () => void | Promise<void>) => void,
  policies: string,
): Promise<TestService> {
  const file = join(temporaryFolder(after), 'policies.cedar');
  writeFileSync(file, policies);
  return startCheckedService(after, { POLICY_FILE: file });
}

function checked<Body>(method: string, path: string, answer: Answer<Body>): Answer<Body> {
  if (answer.status >= 400) checkErrorBody(answer.status, answer.body, path);
  if (answer.status === 200) checkDescribed(method, path, answer.body);
  return answer;
}

/** `path` is what was asked for, with or without its query. */
export function checkErrorBody(status: number, body: unknown, path: string): void {
  const [type, title] = kinds[status] ?? assert.fail(`${status} is no status of this service`);
  const { error, code, ...fixed } = body as Record<string, unknown>;
  const instance = path.split('?', 1)[0];
  assert.deepEqual(fixed, { type, title, status, detail: '', instance });
  assert.ok(Number.isInteger(code), `code ${code}`);
  assert.ok(typeof error === 'string' && error !== '', 'error says something');
  const text = JSON.stringify(body);
  assert.doesNotMatch(text, leaks);
  assert.ok(!text.includes(tmpdir()), `a path of the machine: ${text}`);
}

/** What was asked is refused, with this status and code, and in words that fit. */
export function refused(answer: Answer, status: number, code: number, says: RegExp = /./): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));
  assert.match(String(answer.body.error), says);
}

export function succeeded(answer: Answer): Record<string, unknown> {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}
