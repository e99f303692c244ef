import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDescribed } from '#test/fixtures/described-answers.ts';
import { ask } from './client.ts';
import { startTestService } from './service.ts';

export interface Case {
  readonly method?: 'GET';
  readonly path: string;
  readonly body?: unknown;
  readonly operation: string;
  /** Callbacks are left out. */
  readonly command: Record<string, unknown>;
  readonly answer: unknown;
}

/** Each request becomes the operation's command, and its result the answer. */
export function testJsonRoutes(cases: readonly Case[]): void {
  for (const { method = 'POST', path, body, operation, command, answer } of cases) {
    test(`${method} ${path} becomes ${operation} and answers 200`, async () => {
      await using service = await startTestService();
      const { status, headers, json } = await ask(service, path, { method, ...(body === undefined ? {} : { body }) });
      assert.equal(status, 200);
      assert.deepEqual(json, answer);
      checkDescribed(method, path, json);
      assert.deepEqual(
        service.asked.map((asked) => ({ operation: asked.operation, command: plain(asked.command) })),
        [{ operation, command }],
      );
      if (answer !== undefined) assert.match(headers.get('content-type')!, /^application\/json/);
      assert.equal(headers.get('cache-control'), 'no-store');
    });
  }
}

export const plain = (command: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(command).filter(([, value]) => typeof value !== 'function'));
