import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { people } from './rows.ts';

test('a data folder that was moved as a whole has its tables at the new place', async (t) => {
  const after = lastFirst((clean) => t.after(clean));
  const first = await startTestService(after);
  assert.equal((await first.post('/v1/table/t/create', people([1], 'x'))).status, 200);
  await first.close();
  const moved = join(temporaryFolder(after), 'moved');
  cpSync(first.dataFolder, moved, { recursive: true });
  const second = await startTestService(after, { DATA: moved });
  assert.equal((await second.post('/v1/table/t/merge_insert?on=id', people([2], 'x'))).status, 200);
  assert.equal((await second.post<number>('/v1/table/t/count_rows', {})).body, 2);
});
