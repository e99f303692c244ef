/** The changes of a table at a replica that does not own it, on a folder and on an object store. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { freePort } from '#test/fixtures/free-port.ts';
import { startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { people } from '#test/http/rows.ts';
import { main, Replica } from './nemesis/replica.ts';

const on = ['id'];

describe('changes at a replica that does not own the table', { skip: withoutPostgres ?? false }, () => {
  const after = afterSuite();

  /** Two replicas; tables are made at the first one, which owns them then. */
  async function openPair(storage: Readonly<Record<string, string>>) {
    const catalog = await (await startPostgres(after)).newDatabase();
    const env = { PATH: process.env.PATH, LANCEGATE_CATALOG: catalog };
    const args = [main, 'token', '--subject', 'tester', '--scope', 'lancegate:admin'];
    const token = (await promisify(execFile)(process.execPath, args, { env })).stdout.trim().split('\n').at(-1);
    const start = async (name: string) => {
      const data = join(temporaryFolder(after), 'data');
      const settings = { CATALOG: catalog, OWN_ISSUER: 'true', DATA: data, AUTO_MAINTENANCE: 'false', ...storage };
      const replica = new Replica(name, await freePort(), settings);
      after(() => replica.kill());
      await replica.start();
      return async (path: string, body: Uint8Array | object = {}) => {
        const isArrow = body instanceof Uint8Array;
        const response = await fetch(`${replica.url}/v1/table/t/${path}`, {
          method: 'POST',
          body: isArrow ? Buffer.from(body) : JSON.stringify(body),
          headers: {
            authorization: `Bearer ${token}`,
            'content-type': isArrow ? 'application/vnd.apache.arrow.stream' : 'application/json',
            ...(path.startsWith('changes') && { accept: 'text/csv' }),
          },
        });
        return { status: response.status, text: await response.text() };
      };
    };
    return [await start('one'), await start('two')] as const;
  }

  /** Each commit at the owner is in the next answer of the other replica (P11), which takes what the consumer has acknowledged. */
  async function follow(storage: Readonly<Record<string, string>>): Promise<void> {
    const [owner, other] = await openPair(storage);
    const succeed = async (sent: Promise<{ status: number; text: string }>): Promise<string> => {
      const { status, text } = await sent;
      assert.equal(status, 200, text);
      return text;
    };
    const rowsOf = (text: string) => text.trim().split(/\r?\n/).slice(1).sort();
    await succeed(owner('create', people([1, 2, 3], 'x')));
    await succeed(other('changes/acknowledge', { consumer: 'copy', version: 1 }));
    for (const round of [0, 1, 2]) {
      await succeed(owner('merge_insert?on=id', people([1, 10 + round], `y${round}`)));
      const found = await succeed(other('changes', { after: 1 + round, on }));
      const version = 2 + round;
      assert.deepEqual(rowsOf(found), [`insert,${version},${10 + round},y${round}`, `update,${version},1,y${round}`]);
    }
    const waiting = other('changes?wait=30s', { after: 4, on });
    await succeed(owner('delete', { predicate: 'id = 2' }));
    assert.deepEqual(rowsOf(await succeed(waiting)), ['delete,5,2,']);
    await succeed(owner('maintain'));
    await succeed(owner('version/delete', { ranges: [{ start_version: 0, end_version: 5 }] }));
    const all = rowsOf(await succeed(other('changes', { consumer: 'copy', until: 5, on })));
    assert.deepEqual(all, ['delete,5,2,', 'insert,2,10,y0', 'insert,3,11,y1', 'insert,4,12,y2', 'update,4,1,y2']);
    await succeed(other('changes/acknowledge', { consumer: 'copy', version: 5 }));
    assert.deepEqual(rowsOf(await succeed(owner('changes', { consumer: 'copy', on }))), []);
  }

  test('have each commit of the owner at once, on a folder (P11)', () =>
    follow({ STORAGE_ROOT: temporaryFolder(after) }));

  test('have each commit of the owner at once, on S3 (P11)', { skip: withoutS3Gateway ?? false }, async () => {
    const { newRoot, storageOptions } = await startS3Gateway(after);
    await follow({ STORAGE_ROOT: newRoot(), STORAGE_OPTIONS: JSON.stringify(storageOptions) });
  });
});
