import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, storedRows, stream } from './rows.ts';
import { holdTurn, receivedBytes, untilQueued, untilReceived, untilWaitingForTables } from './stalled-reads.ts';
import { Upload } from './upload-client.ts';

describe('a table that is dropped, overwritten, or made twice', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const create = async (table: string, ids: readonly number[] = [1, 2], name = 'old') =>
    succeeded(await service.post(`/v1/table/${table}/create`, people(ids, name)));
  const merge = (table: string, ids: readonly number[], name: string) =>
    service.post(`/v1/table/${table}/merge_insert?on=id`, people(ids, name));
  const folderOf = async (table: string) => {
    const { location } = succeeded(await service.post(`/v1/table/${table}/describe`));
    return String(location).split('/').at(-1) ?? '';
  };
  const hold = (table: string, after: (clean: () => void) => void) =>
    holdTurn(service, table, after, () => merge(table, [1], 'holder'));

  test('exist_ok keeps what is there and answers with it; the rows of the body do not count', async () => {
    const { location } = await create('kept');
    succeeded(await merge('kept', [3], 'old'));
    const answer = succeeded(await service.post('/v1/table/kept/create?mode=exist_ok', people([8, 9], 'new')));
    assert.deepEqual([answer.location, answer.version], [location, 2]);
    assert.equal((await storedRows(service, 'kept')).length, 3);
  });

  test('exist_ok for a table of another schema is refused, and shows nothing of it', async () => {
    succeeded(await service.post('/v1/table/shoes/create', stream({ id: [1], size: [2] })));
    for (const other of [
      { id: [1] },
      { size: [2], id: [1] },
      { id: [1], size: ['x'] },
      { id: [1], size: [1], b: [1] },
    ]) {
      const answer = await service.post('/v1/table/shoes/create?mode=exist_ok', stream(other));
      refused(answer, 400, 20, /^the table is there with another schema/);
      assert.doesNotMatch(JSON.stringify(answer.body), /size|already exists/);
    }
    succeeded(await service.post('/v1/table/shoes/create?mode=exist_ok', stream({ id: [7, 8], size: [9, 10] })));
    assert.equal((await storedRows(service, 'shoes')).length, 1);
  });

  test('overwrite replaces rows, schema, properties and branches, and starts again at version 1', async () => {
    await create('over');
    succeeded(await merge('over', [7], 'old'));
    succeeded(await service.post('/v1/table/over/branches/create', { name: 'dev' }));
    const properties = encodeURIComponent(JSON.stringify({ owner: 'bob' }));
    const path = `/v1/table/over/create?mode=overwrite&properties=${properties}`;
    const answer = succeeded(await service.post(path, stream({ id: [1], shoe: ['x'] })));
    assert.deepEqual([answer.version, answer.properties], [1, { owner: 'bob' }]);
    const branches = succeeded(await service.post('/v1/table/over/branches/list')).branches;
    assert.deepEqual(branches, {});
    refused(await service.post('/v1/table/over/merge_insert?on=id&branch=dev', people([1], 'x')), 404, 22);
    const folder = await folderOf('over');
    assert.deepEqual(await storedRows(service, folder.replace('.lance', '')), [{ id: 1, shoe: 'x' }]);
    assert.equal(existsSync(join(service.tablesFolder, 'over.lance')), false, 'the old files are gone');
  });

  test('an overwrite that fails leaves everything as it was (P1)', async () => {
    await create('safe');
    const body = people([1, 2, 3], 'new');
    refused(await service.post('/v1/table/safe/create?mode=overwrite', body.subarray(0, body.length - 60)), 400, 13);
    assert.deepEqual(await storedRows(service, 'safe'), [
      { id: 1, name: 'old' },
      { id: 2, name: 'old' },
    ]);
    assert.deepEqual(
      readdirSync(service.tablesFolder).filter((name) => name.startsWith('safe')),
      ['safe.lance'],
    );
  });

  test('deregistered during an overwrite it keeps its files, also if they have another name by then (P1)', async () => {
    for (const other of [undefined, 'saved']) {
      const { location } = await create('left');
      const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
      const upload = new Upload(`${service.url}/v1/table/left/create?mode=overwrite`, { authorization });
      const body = people([7], 'new');
      await upload.write(body.subarray(0, -8));
      const isBegun = async () =>
        (await service.post('/v1/table/left/rename', { new_table_name: 'left' })).body.code === 14;
      await eventually('the overwrite has the name', isBegun);
      succeeded(await service.post('/v1/table/left/deregister'));
      const name = other ?? 'late';
      const register = async () => succeeded(await service.post(`/v1/table/${name}/register`, { location }));
      if (other !== undefined) await register();
      await upload.write(body.subarray(-8));
      assert.equal((await upload.end()).status, 200);
      assert.deepEqual((await service.post('/v1/table/left/count_rows')).body, 1);
      if (other === undefined) await register();
      assert.deepEqual((await service.post(`/v1/table/${name}/count_rows`)).body, 2);
      succeeded(await service.post('/v1/table/left/drop'));
    }
  });

  test('dropped and made again it has a new location and none of the old rows, versions and branches', async () => {
    const first = await create('again');
    succeeded(await merge('again', [9], 'old'));
    succeeded(await service.post('/v1/table/again/branches/create', { name: 'dev' }));
    succeeded(await service.post('/v1/table/again/drop'));
    assert.equal(existsSync(join(service.tablesFolder, 'again.lance')), false);
    const second = await create('again', [5], 'new');
    assert.notEqual(second.location, first.location);
    assert.deepEqual((await service.post('/v1/table/again/count_rows')).body, 1);
    refused(await service.post('/v1/table/again/describe', { version: 2 }), 404, 11);
    refused(await service.post('/v1/table/again/describe', { branch: 'dev' }), 404, 22);
    succeeded(await service.post('/v1/table/again/drop'));
    const third = await create('again');
    assert.equal(new Set([first.location, second.location, third.location]).size, 3);
  });

  test('of two creates at once one gets 200 and the other 409, and the rows are those of the winner (P1)', async () => {
    for (const round of [1, 2, 3, 4]) {
      const table = `two_${round}`;
      const answers = await Promise.all(
        ['a', 'b'].map((name) => service.post(`/v1/table/${table}/create`, people([1, 2, 3], name))),
      );
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
      const winner = answers[0]?.status === 200 ? 'a' : 'b';
      assert.deepEqual(new Set((await storedRows(service, table)).map(({ name }) => name)), new Set([winner]));
    }
  });

  test('creates with exist_ok at once make one table; one that finds another under way is asked to retry (P1)', async () => {
    const path = '/v1/table/ok/create?mode=exist_ok';
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => service.post(path, people([1, 2], name))));
    for (const answer of answers) if (answer.status !== 200) refused(answer, 409, 14);
    const locations = answers.filter(({ status }) => status === 200).map(({ body }) => body.location);
    assert.equal(new Set(locations).size, 1);
    assert.equal((await storedRows(service, 'ok')).length, 2);
    assert.equal(succeeded(await service.post(path, people([1], 'late'))).location, locations[0]);
  });

  test('a drop waits for the merges before it; the merges behind it find no table (P5)', async (t) => {
    await create('going');
    const { release, holder } = await hold('going', (clean) => t.after(clean));
    const before = merge('going', [2], 'before');
    await untilQueued(service, 1);
    const drop = service.post('/v1/table/going/drop');
    await untilWaitingForTables(service, 1);
    const received = await receivedBytes(service);
    const behind = merge('going', [3], 'behind');
    await untilReceived(service, received + people([3], 'behind').length);
    release();
    await holder;
    succeeded(await before);
    succeeded(await drop);
    refused(await behind, 404, 4, /'going'/);
    refused(await service.post('/v1/table/going/exists'), 404, 4);
    assert.ok(!readdirSync(service.tablesFolder).includes('going.lance'));
    await create('going');
  });

  test('an overwrite waits for the merges before it; those behind it are not mixed into the new table (P5, P6)', async (t) => {
    await create('swapped');
    const { release, holder } = await hold('swapped', (clean) => t.after(clean));
    const before = merge('swapped', [2], 'before');
    await untilQueued(service, 1);
    const overwrite = service.post('/v1/table/swapped/create?mode=overwrite', people([1, 2, 3], 'new'));
    await untilWaitingForTables(service, 1);
    const received = await receivedBytes(service);
    const behind = merge('swapped', [4], 'behind');
    await untilReceived(service, received + people([4], 'behind').length);
    release();
    await holder;
    succeeded(await before);
    succeeded(await overwrite);
    refused(await behind, 503, 14, /was replaced while the write waited; nothing was written/);
    const folder = await folderOf('swapped');
    const rows = await storedRows(service, folder.replace('.lance', ''));
    assert.deepEqual(
      rows.map(({ id, name }) => [id, name]),
      [
        [1, 'new'],
        [2, 'new'],
        [3, 'new'],
      ],
    );
  });

  test('merges and counts during overwrites see one table or the other, whole (P1, P5)', async () => {
    await create('busy', [1, 2, 3], 'round 0');
    let round = 0;
    const overwrites = (async () => {
      while (round < 6) {
        round += 1;
        const path = '/v1/table/busy/create?mode=overwrite';
        succeeded(await service.post(path, people([1, 2, 3], `round ${round}`)));
      }
    })();
    const merged = (async () => {
      for (let pair = 10; round < 6; pair += 2) {
        const answer = await merge('busy', [pair, pair + 1], 'pair');
        if (answer.status !== 200) refused(answer, 503, 14);
      }
    })();
    const counted = (async () => {
      while (round < 6) {
        const answer = await service.post<unknown>('/v1/table/busy/count_rows');
        if (answer.status === 200) assert.equal((Number(answer.body) - 3) % 2, 0, `${answer.body} rows`);
        else refused(answer as never, 503, 14);
      }
    })();
    await Promise.all([overwrites, merged, counted]);
    const rows = await storedRows(service, (await folderOf('busy')).replace('.lance', ''));
    assert.deepEqual(
      rows.filter(({ name }) => name !== 'pair'),
      [1, 2, 3].map((id) => ({ id, name: 'round 6' })),
    );
    const ids = rows.filter(({ name }) => name === 'pair').map(({ id }) => Number(id));
    for (const id of ids) assert.ok(ids.includes(id % 2 === 0 ? id + 1 : id - 1), 'a merge is there wholly or not');
  });
});
