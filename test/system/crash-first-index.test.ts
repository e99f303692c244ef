/** An index build that dies in a table to which this process has committed nothing. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { mintToken } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { stagedIn } from '#test/fixtures/unnamed-files.ts';
import { eventually } from '#test/http/eventually.ts';
import { makeTable } from './crash-rows.ts';
import { CrashService } from './crash-service.ts';

test('what an index build leaves that died before any commit to its table goes with the next start (P1)', async (t) => {
  const later = lastFirst((clean) => t.after(clean));
  const data = temporaryFolder(later);
  const root = join(data, 'tables');
  const token = await mintToken(data);
  const first = await CrashService.start(data, token);
  later(() => first.kill());
  await makeTable(first, 't', 8_000, true);
  const build = { column: 'vector', index_type: 'IVF_HNSW_SQ', name: 'x' };
  const asked = first.ask({ path: '/v1/table/t/create_index', body: build });
  await eventually('the index is being built', () => stagedIn(root).some((path) => path.includes('/_indices/')));
  await first.kill();
  assert.equal(await asked, undefined);
  assert.notDeepEqual(stagedIn(root), [], 'the crash did leave files');

  const second = await CrashService.start(data, token);
  later(() => second.kill());
  assert.deepEqual(stagedIn(root), []);
  assert.deepEqual((await second.get({ path: '/v1/table/t/index/list' })).indexes, []);
  assert.deepEqual((await second.get({ path: '/v1/jobs/list' })).jobs, []);
  await second.get({ path: '/v1/table/t/create_index', body: { ...build, index_type: 'IVF_FLAT' } });
  assert.equal(await second.stop(), 0);
});
