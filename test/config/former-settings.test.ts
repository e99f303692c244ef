import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestService } from '#test/fixtures/service.ts';

test('a setting of an earlier release stops no start, and the log warns of it', async (t) => {
  const service = await startTestService(t.after.bind(t), { ENGINE_INDEX_CACHE: '1GiB', TABLE_SHARE: '50%' });
  const warnings = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    warnings.filter(({ level }) => level === 'warn').map(({ setting }) => setting),
    ['engine-index-cache', 'table-share'],
  );
});
