/** Declared tables whose dataset a program of files writes: through the service from version 1, or past it. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { tableFromIPC } from 'apache-arrow';
import { readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { stage } from '#test/fixtures/proposed-version.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

describe('a declared table whose dataset a program of files writes', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { MANAGED_VERSIONING: 'true' });
  });
  const post = (path: string, body: object = {}) => service.post(`/v1/table/${path}`, body);
  const pathOf = (table: string) => join(service.tablesFolder, `${table}.lance`);
  const ofTwoRows = async (folder: string) => {
    (await (await connect(folder)).createTable('t', tableFromIPC(people([1, 2], 'of files')))).close();
    return join(folder, 't.lance');
  };
  const isWritten = async (table: string) => {
    assert.equal((await post(`${table}/count_rows`)).body as unknown, 2);
    succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, people([2, 3], 'gate')));
    assert.equal((await post(`${table}/count_rows`)).body as unknown, 3);
    assert.equal(succeeded(await post(`${table}/describe`)).version, 2);
  };

  test('proposes version 1, and the table is created by it (P1, P3)', async () => {
    assert.equal(succeeded(await post('t/declare')).managed_versioning, true);
    assert.deepEqual(succeeded(await post('t/version/list')).versions, []);
    const dataset = await ofTwoRows(temporaryFolder(later));
    for (const name of ['data', '_transactions'])
      cpSync(join(dataset, name), join(pathOf('t'), name), { recursive: true });
    cpSync(join(dataset, '_versions'), join(pathOf('t'), '_versions'), {
      recursive: true,
      filter: (file) => !file.includes('.manifest'),
    });
    const { bytes } = readManifest(join(dataset, '_versions'), 1)!;
    const proposed = stage(pathOf('t'), 1, bytes);
    refused(
      await post('t/version/create', { ...proposed, version: 2 }),
      400,
      13,
      /the next version of the branch is 1/,
    );
    refused(await post('t/version/create', stage(pathOf('t'), 1, bytes.subarray(9))), 400, 13, /not fit/);
    succeeded(await post('t/version/create', proposed));
    refused(await post('t/version/create', stage(pathOf('t'), 1, bytes)), 409, 14);
    await isWritten('t');
  });

  test('commits past the service, and the next look takes it', async () => {
    succeeded(await post('past/declare', { properties: { a: 'b' } }));
    cpSync(await ofTwoRows(temporaryFolder(later)), pathOf('past'), { recursive: true });
    const { is_only_declared, properties } = succeeded(await post('past/describe'));
    assert.deepEqual([is_only_declared, properties], [false, { a: 'b' }]);
    await isWritten('past');
  });

  test('is taken by a create too, which finds a table there', async () => {
    const rows = people([1, 2, 3], 'sent');
    const create = (table: string, query: string) => service.post(`/v1/table/${table}/create${query}`, rows);
    for (const table of ['made', 'found', 'replaced']) {
      succeeded(await post(`${table}/declare`));
      cpSync(await ofTwoRows(temporaryFolder(later)), pathOf(table), { recursive: true });
    }
    refused(await create('made', ''), 409, 5);
    await isWritten('made');
    assert.equal(succeeded(await create('found', '?mode=exist_ok')).version, 1);
    await isWritten('found');
    succeeded(await create('replaced', '?mode=overwrite'));
    assert.equal((await post('replaced/count_rows')).body as unknown, 3);
  });

  test('that cannot be read is refused to readers, and its name is renamed, dropped and deregistered', async () => {
    const dataset = await ofTwoRows(temporaryFolder(later));
    const torn = readManifest(join(dataset, '_versions'), 1)!;
    writeFileSync(torn.path, torn.bytes.subarray(9));
    for (const name of ['torn', 'kept']) {
      succeeded(await post(`${name}/declare`));
      cpSync(dataset, pathOf(name), { recursive: true });
      refused(await post(`${name}/count_rows`), 500, 19, /damaged/);
      refused(await post(`${name}/create`, people([1], 'x')), 400, 19, /deregister the table .* or drop the table/);
    }
    succeeded(await post('torn/rename', { new_table_name: 'moved' }));
    succeeded(await post('moved/drop'));
    assert.ok(!existsSync(pathOf('torn')));
    succeeded(await post('kept/deregister'));
    assert.ok(existsSync(pathOf('kept')));
    for (const name of ['torn', 'moved', 'kept']) refused(await post(`${name}/describe`), 404, 4);
  });

  test('goes with its files when it is dropped before anybody has looked', async () => {
    succeeded(await post('unseen/declare'));
    cpSync(await ofTwoRows(temporaryFolder(later)), pathOf('unseen'), { recursive: true });
    succeeded(await post('unseen/drop'));
    assert.ok(!existsSync(pathOf('unseen')));
  });
});
