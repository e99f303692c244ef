/** Compactions run in a process of their own: what ends one, and what is left then. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { enginePriorities, isStalled, readersOf } from '#test/fixtures/reader-processes.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people } from './rows.ts';
import { stallReads } from './stalled-reads.ts';

const fragments = 6;

describe('a compaction', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
  });
  const post = (table: string, route: string, body?: Uint8Array) => service.post(`/v1/table/${table}/${route}`, body);

  /** A table of small fragments whose compaction stands, since one of its files cannot be read. */
  async function standing(t: TestContext, table: string) {
    succeeded(await post(table, 'create', people([0], 'first')));
    const reads = stallReads(service, table, t.after.bind(t));
    for (let id = 1; id < fragments; id++) succeeded(await post(table, 'insert', people([id], 'later')));
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const maintain = { method: 'POST', headers, signal: leaving.signal };
    const answer = fetch(`${service.url}/v1/table/${table}/maintain`, maintain).catch(() => undefined);
    const folder = join(service.tablesFolder, `${table}.lance`);
    const shadows = () => readdirSync(join(folder, 'lancegate=staging')).length;
    await eventually('its process reads', () => builder() !== undefined && isStalled(builder()!));
    const versions = () => readdirSync(join(folder, '_versions')).length;
    return { answer, leaving, reads, shadows, versions };
  }
  /** The process whose threads go behind those of all others. */
  const builder = (): number | undefined =>
    readersOf(process.pid).find((pid) => {
      try {
        return enginePriorities(pid).includes(15);
      } catch {
        return false; // it has ended
      }
    });

  test('is lost with its process, and nothing else is: the next one is made (P1, P12)', async (t) => {
    const { answer, reads, shadows, versions } = await standing(t, 'killed');
    const before = versions();
    succeeded(await post('killed', 'insert', people([fragments], 'meanwhile')));
    process.kill(builder()!, 'SIGKILL');
    assert.match((await (await answer)?.text()) ?? '', /process that built the compaction died; nothing was written/);
    await eventually('its shadow is gone', () => shadows() === 0);
    assert.equal(versions(), before + 1);
    reads.release();
    const { jobs } = succeeded(await post('killed', 'maintain')) as { jobs: readonly Record<string, unknown>[] };
    assert.deepEqual(
      jobs.filter(({ job }) => job === 'compact').map((job) => job.removed_fragments),
      [fragments],
    );
    assert.equal(succeeded(await post('killed', 'count_rows')), fragments + 1);
  });

  test('ends with the service, which does not wait for it (P6)', async (t) => {
    const { leaving, reads, versions } = await standing(t, 'stopped');
    const before = versions();
    leaving.abort();
    await service.restart();
    reads.release();
    assert.equal(versions(), before);
    assert.equal(builder(), undefined);
    assert.equal(succeeded(await post('stopped', 'count_rows')), fragments);
    assert.deepEqual(
      service.log.filter((line) => line.includes('maintenance of a table failed')),
      [],
    );
  });
});
