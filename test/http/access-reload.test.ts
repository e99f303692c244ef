/** The policies of a running service are replaced by those of a changed file. */
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people } from './rows.ts';

const allAllowed = 'permit (principal, action, resource);';
const countsForbidden = `${allAllowed}\nforbid (principal, action == Action::"CountTableRows", resource);`;
const lookEveryMs = 2_000;

describe('policies that change while the service runs (P9)', () => {
  const start = async (t: { after: (clean: () => void | Promise<void>) => void }) => {
    const after = (clean: () => void | Promise<void>) => t.after(clean);
    const file = join(temporaryFolder(after), 'policies.cedar');
    writeFileSync(file, allAllowed);
    const clock = new AdvancingClock();
    const service = await startCheckedService(after, { POLICY_FILE: file }, clock);
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
    const count = () => service.post('/v1/table/t/count_rows');
    assert.equal((await count()).status, 200);
    return { service, clock, file, count };
  };

  test('hold from a reload on, for tokens that were seen before, too; a broken file changes nothing', async (t) => {
    const { service, file, count } = await start(t);
    writeFileSync(file, countsForbidden);
    await service.reload();
    refused(await count(), 403, 15);
    writeFileSync(file, `${allAllowed}\npermit (principal, action resource);`);
    await service.reload();
    refused(await count(), 403, 15);
    const refusal = /policies\.cedar:2:27: unexpected token.*the policies stay as they are/;
    assert.ok(service.log.some((line) => refusal.test(line)));
    writeFileSync(file, allAllowed);
    await service.reload();
    assert.equal((await count()).status, 200);
  });

  test('hold for a retry with a key, on either name of a rename', async (t) => {
    const { service, file } = await start(t);
    const rename = () => service.post('/v1/table/t/rename', { new_table_name: 'new' }, { 'idempotency-key': 'k' });
    succeeded(await rename());
    assert.equal((await rename()).headers.get('idempotency-replayed'), 'true');
    for (const name of ['t', 'new']) {
      const forbidden = `forbid (principal, action == Action::"RenameTable", resource == Table::"${name}");`;
      writeFileSync(file, `${allAllowed}\n${forbidden}`);
      await service.reload();
      refused(await rename(), 403, 15);
    }
  });

  test('hold without being asked for, once the file has settled', async (t) => {
    const { clock, file, count } = await start(t);
    writeFileSync(`${file}.new`, countsForbidden);
    renameSync(`${file}.new`, file);
    await eventually('the new policies hold', async () => {
      clock.advance(lookEveryMs);
      return (await count()).status === 403;
    });
    writeFileSync(file, allAllowed);
    await eventually('the old ones hold again', async () => {
      clock.advance(lookEveryMs);
      return (await count()).status === 200;
    });
  });
});

test('a service without a policy file is not harmed by a reload', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  await service.reload();
  assert.ok(service.log.some((line) => line.includes('no policy file')));
  succeeded(await service.get('/v1/table'));
});
