/** `register` takes a location from a client: the location is authorised as well as the name (P9). */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { connect } from '@lancedb/lancedb';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Has one namespace.
permit (principal == Principal::"ann", action, resource in Namespace::"a");

// Has one table.
permit (principal == Principal::"tom", action, resource == Table::"a$toms");

// Has all but one namespace, and one with a name that no folder can have.
permit (principal == Principal::"eve", action, resource);
forbid (principal == Principal::"eve", action, resource in Namespace::"b");
forbid (principal == Principal::"eve", action, resource in Namespace::"ünï");

// Has that one alone.
permit (principal == Principal::"uwe", action, resource in Namespace::"ünï");
`;

describe('a location is registered by a principal that has rights there (P9)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    for (const namespace of ['a', 'b', 'b$deep', encodeURIComponent('ünï')]) {
      succeeded(await service.post(`/v1/namespace/${namespace}/create`));
    }
  });

  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:admin', subject)}` });
  const register = async (subject: string, table: string, location: string, more: object = {}) =>
    service.post(`/v1/table/${encodeURIComponent(table)}/register`, { location, ...more }, await as(subject));
  /** Registers nothing: the table stays unknown. */
  const denied = async (subject: string, table: string, location: string, status: 400 | 403, more: object = {}) => {
    const answer = await register(subject, table, location, more);
    refused(answer, status, status === 403 ? 15 : 13);
    refused(await service.post(`/v1/table/${encodeURIComponent(table)}/exists`), 404, 4);
    return answer;
  };
  const create = async (table: string, ids: readonly number[] = [1, 2]) =>
    String(succeeded(await service.post(`/v1/table/${encodeURIComponent(table)}/create`, people(ids, 'x'))).location);
  const deregister = async (table: string) =>
    succeeded(await service.post(`/v1/table/${encodeURIComponent(table)}/deregister`));
  const count = async (table: string) => (await service.post<unknown>(`/v1/table/${table}/count_rows`)).body;
  /** The answer without the words that the client itself has said. */
  const shapeOf = ({ status, body }: Answer, ...said: readonly string[]) =>
    said.reduce((text, word) => text.replaceAll(word, '…'), JSON.stringify([status, body]));

  test('what was deregistered from one namespace is not adopted by another', async () => {
    const location = await create('b$left');
    await deregister('b$left');
    for (const where of [location, 'b/left.lance', join(service.tablesFolder, 'a', '..', 'b', 'left.lance')]) {
      const answer = await denied('ann', 'a$mine', where, 403);
      assert.match(String(answer.body.error), /^RegisterTable at the location 'b\/left\.lance' is not allowed$/);
    }
    const absent = await denied('ann', 'a$mine', 'b/absent.lance', 403);
    const there = await denied('ann', 'a$mine', 'b/left.lance', 403);
    assert.equal(shapeOf(there, 'left'), shapeOf(absent, 'absent'));
    await denied('ann', 'a$mine', 'b/deep/x.lance', 403);
    succeeded(await register('tester', 'a$given', 'b/left.lance'));
    assert.equal(await count('a$given'), 2);
  });

  test('a location keeps its last owner, wherever it lies', async () => {
    await (await connect(join(service.tablesFolder, 'loaded'))).createTable('old', [{ id: 1 }]);
    succeeded(await register('tester', 'b$old', 'loaded/old.lance'));
    const held = await denied('eve', 'mine', 'loaded/old.lance', 400);
    await deregister('b$old');
    const left = await denied('eve', 'mine', 'loaded/old.lance', 400);
    const absent = await denied('eve', 'mine', 'loaded/new.lance', 400);
    assert.match(String(absent.body.error), /no table is stored there/);
    for (const answer of [held, left]) assert.equal(shapeOf(answer), shapeOf(absent));
    await service.restart();
    await denied('eve', 'mine', 'loaded/old.lance', 400);
    succeeded(await register('tester', 'mine', 'loaded/old.lance'));
    await deregister('mine');
    succeeded(await register('eve', 'mine', 'loaded/old.lance'));
  });

  test('the log names the principal that was refused a location, and the owner of the location', async () => {
    await create('b$wanted');
    await denied('ann', 'a$mine', 'b/wanted.lance', 403);
    await denied('eve', 'a$mine', 'loaded/none.lance', 400);
    await create('a$toms_not');
    await denied('tom', 'a$toms', 'a/toms_not.lance', 400);
    const records = service.log
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ message, route }) => message === 'request' && String(route).endsWith('/register'))
      .slice(-3)
      .map(({ subject, status, decision, table, namespace }) => [subject, status, decision, table ?? namespace]);
    assert.deepEqual(records, [
      ['ann', 403, 'denied', 'b'],
      ['eve', 400, 'allowed', 'a$mine'],
      ['tom', 400, 'denied', 'a$toms_not'],
    ]);
  });

  test('a right on one table adopts nothing that was another table’s in the same namespace', async () => {
    await create('a$other');
    await denied('tom', 'a$toms', 'a/other.lance', 400);
    await deregister('a$other');
    await denied('tom', 'a$toms', 'a/other.lance', 400);
    await create('a$toms');
    await deregister('a$toms');
    succeeded(await register('tom', 'a$toms', 'a/toms.lance'));
    succeeded(await register('ann', 'a$adopted', 'a/other.lance'));
  });

  test('what may not be adopted is not looked at, so the time of an answer does not tell that it is there', async (t) => {
    await create('a$live');
    await create('a$gone');
    await deregister('a$gone');
    await create('ünï$secret');
    const [folder = ''] = readdirSync(service.tablesFolder).filter((name) => name.startsWith('x_n_-'));
    const resolved = t.mock.method(LanceEngine.prototype, 'resolve');
    const opened = t.mock.method(LanceEngine.prototype, 'open');
    for (const [subject, table, place] of [
      ['tom', 'a$toms', 'a/live.lance'],
      ['tom', 'a$toms', 'a/gone.lance'],
      ['ann', 'a$mine', `${folder}/secret.lance`],
      ['tom', 'a$toms', 'a/absent.lance'],
    ] as const) {
      refused(await register(subject, table, place, { mode: 'overwrite' }), 400, 13);
    }
    assert.equal(opened.mock.callCount(), 0);
    const places = resolved.mock.calls.map(({ arguments: [place] }) => place);
    assert.deepEqual(places, ['a/live~.lance', 'a/gone~.lance', `${folder}/secret~.lance`, 'a/absent.lance']);
  });

  test('neither the root nor what lies in it belongs to who has one namespace', async () => {
    await create('plain');
    await deregister('plain');
    await denied('ann', 'a$mine', 'plain.lance', 403);
    await denied('ann', 'a$mine', 'anywhere/plain.lance', 403);
  });

  test('a namespace with an encoded folder is asked for by its name', async () => {
    await create('ünï$t');
    const { location } = await deregister('ünï$t');
    const place = decodeURIComponent(new URL(String(location)).pathname);
    const [folder] = place.split('/').slice(-2);
    await denied('ann', 'a$mine', place, 400);
    const there = await denied('eve', 'mine_too', place, 400);
    const absent = await denied('eve', 'mine_too', `${folder}/absent.lance`, 400);
    assert.equal(shapeOf(there), shapeOf(absent));
    cpSync(place, join(service.tablesFolder, folder!, 'copy.lance'), { recursive: true });
    await denied('eve', 'mine_too', `${folder}/copy.lance`, 400);
    succeeded(await register('uwe', 'ünï$copy', `${folder}/copy.lance`));
    succeeded(await register('uwe', 'ünï$again', String(location)));
  });

  test('a namespace that is named like an encoded folder has no rights in it', async () => {
    await create('ünï$loose');
    const [folder = ''] = readdirSync(service.tablesFolder).filter((name) => name.startsWith('x_n_-'));
    const inFolder = (name: string) => join(service.tablesFolder, folder, name);
    cpSync(inFolder('loose.lance'), inFolder('never_known.lance'), { recursive: true });
    succeeded(await service.post(`/v1/namespace/${folder}/create`));
    await denied('eve', `${folder}$mine`, `${folder}/never_known.lance`, 400);
    await denied('uwe', 'ünï$mine', `${folder}/never_known.lance`, 400);
    succeeded(await register('tester', `${folder}$mine`, `${folder}/never_known.lance`));
  });

  test('a branch inside a dataset is no table, whichever principal asks and whichever owns it', async () => {
    await create('b$br');
    succeeded(await service.post('/v1/table/b$br/branches/create', { name: 'x.lance' }));
    const branch = 'b/br.lance/tree/x.lance';
    assert.ok(existsSync(join(service.tablesFolder, branch)));
    const inDataset = /must not lie inside the folder of a table/;
    for (const subject of ['ann', 'tester']) {
      const answer = await denied(subject, 'a$branch', branch, 400);
      assert.match(String(answer.body.error), inDataset);
    }
    for (const spelt of [`${branch}/`, join(service.tablesFolder, branch), 'b/BR.LANCE/tree/x.lance']) {
      assert.match(String((await denied('tester', 'a$branch', spelt, 400)).body.error), inDataset);
    }
    await deregister('b$br');
    await denied('tester', 'a$branch', branch, 400);
    succeeded(await register('tester', 'b$br', 'b/br.lance'));
    assert.equal((await service.post<unknown>('/v1/table/b$br/count_rows', { branch: 'x.lance' })).body, 2);
  });

  test('a location that is held is refused in every spelling, and nothing happens to it', async () => {
    await create('b$held');
    const uri = pathToFileURL(join(service.tablesFolder, 'b', 'held.lance')).href;
    const folder = join(service.tablesFolder, 'a');
    mkdirSync(folder, { recursive: true });
    symlinkSync('../b/held.lance', join(folder, 'link.lance'));
    symlinkSync('../b', join(folder, 'linked'));
    symlinkSync('../b/held.lance/tree', join(folder, 'inside'));
    symlinkSync('loop.lance', join(folder, 'loop.lance'));
    symlinkSync('nowhere.lance', join(folder, 'dangling.lance'));
    succeeded(await service.post('/v1/table/b$held/branches/create', { name: 'y.lance' }));
    for (const spelt of [
      ...['b/held.lance', 'b/held.lance/', uri, `${uri}/`, uri.replace('held', '%68eld')],
      ...['a/link.lance', 'a/linked/held.lance', 'a/inside/y.lance', 'a/loop.lance', 'a/dangling.lance'],
      ...[`${service.tablesFolder}//b///held.lance`, `${service.tablesFolder}/a/../b/./held.lance`],
      ...['b/%68eld.lance', 'b%2fheld.lance', './b/held.lance', 'a/../b/held.lance', 'b//held.lance', 'b/held.lance?x'],
    ]) {
      const answer = await register('tester', 'a$thief', spelt);
      refused(answer, 400, 13);
    }
    for (const alias of [
      'a/link.lance',
      'a/linked/held.lance',
      'a/inside/y.lance',
      'a/loop.lance',
      'a/dangling.lance',
    ]) {
      const answer = await register('ann', 'a$thief', alias);
      assert.ok([400, 403].includes(answer.status));
      if (answer.status === 400) assert.match(String(answer.body.error), /no table is stored there/);
    }
    refused(await service.post('/v1/table/a$thief/exists'), 404, 4);
    assert.equal(await count('b$held'), 2);
  });

  test('no spelling of a held location, made at random, is adopted or fails', async () => {
    const random = new Random(17);
    const letters = [...'./\\%~:*?#@!$&()[]{}|<>"`^ +;,=\0\n\u0301\u00e9\u202e\uff0f'];
    const roots = ['', service.tablesFolder, pathToFileURL(service.tablesFolder).href, '..', '.', '/', 'a/linked/..'];
    const twist = (text: string): string => {
      const at = random.int(text.length + 1);
      const [before, after] = [text.slice(0, at), text.slice(at)];
      switch (random.int(6)) {
        case 0:
          return before + random.pick(letters) + after;
        case 1:
          return before + random.pick(['../', './', '//', '..%2f', '%2e%2e/', 'b/../', 'held.lance/../']) + after;
        case 2:
          return before + [...after].map((letter, index) => (index === 0 ? letter.toUpperCase() : letter)).join('');
        case 3:
          return before + after.replace(/^./, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
        case 4:
          return `${text}/`;
        default:
          return `${random.pick(roots)}/${text}`;
      }
    };
    for (let round = 0; round < 100; round += 1) {
      let location = random.pick(['b/held.lance', 'a/linked/held.lance', 'b/held.lance/tree/y.lance', 'a/link.lance']);
      for (let twists = random.int(4); twists > 0; twists -= 1) location = twist(location);
      for (const subject of ['tester', 'ann']) {
        const { status, body } = await register(subject, 'a$thief', location);
        assert.ok([400, 403].includes(status), `${JSON.stringify(location)}: ${status} ${JSON.stringify(body)}`);
      }
    }
    assert.equal(await count('b$held'), 2);
  });

  test('a link to a table without an owner leads to where it really is', async () => {
    await (await connect(join(service.tablesFolder, 'a', 'real'))).createTable('raw', [{ id: 1 }]);
    symlinkSync('real/raw.lance', join(service.tablesFolder, 'a', 'alias.lance'));
    const { location } = succeeded(await register('ann', 'a$aliased', 'a/alias.lance'));
    assert.match(String(location), /\/a\/real\/raw\.lance$/);
    refused(await register('tester', 'a$second', 'a/real/raw.lance'), 400, 13, /belongs to another table/);
  });

  test('a declared table, and one that is being dropped, keep their locations', async () => {
    const declared = succeeded(await service.post('/v1/table/b$promised/declare'));
    await (await connect(join(service.tablesFolder, 'b'))).createTable('promised', [{ id: 1 }]);
    refused(await register('tester', 'a$thief', String(declared.location)), 400, 13, /belongs to another table/);
    await denied('ann', 'a$thief', 'b/promised.lance', 403);
  });

  test('a location in more folders than a namespace can have is refused before the policy is asked', async () => {
    await denied('ann', 'a$deep', `${'a/'.repeat(10_000)}x.lance`, 400);
    await denied('tester', 'a$deep', `a/${'x'.repeat(300)}/x.lance`, 400);
  });

  test('with overwrite the name changes hands in one step, or not at all', async () => {
    await create('a$named');
    await create('a$next', [1, 2, 3]);
    await deregister('a$next');
    refused(await register('ann', 'a$named', 'a/absent.lance', { mode: 'Overwrite' }), 400, 13);
    refused(await register('ann', 'a$named', 'b/br.lance', { mode: 'Overwrite' }), 403, 15);
    assert.equal(await count('a$named'), 2, 'a refusal leaves the name to the table that has it');
    succeeded(await register('ann', 'a$named', 'a/next.lance', { mode: 'Overwrite' }));
    assert.equal(await count('a$named'), 3);
    succeeded(await register('ann', 'a$named', 'a/next.lance', { mode: 'Overwrite', properties: { owner: 'ann' } }));
    assert.equal(await count('a$named'), 3);
    succeeded(await register('ann', 'a$former', 'a/named.lance'));
    assert.equal(await count('a$former'), 2);
  });

  test('of many requests that register one location at once, one gets it', async () => {
    await create('a$wanted');
    await deregister('a$wanted');
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, number) => register('ann', `a$w${number}`, 'a/wanted.lance')),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    for (const { status } of answers) assert.ok([200, 400, 409].includes(status), `${status}`);
  });

  test('a request that registers a location while it is dropped gets the files or a refusal', async () => {
    for (let round = 0; round < 10; round += 1) {
      const location = await create(`a$d${round}`);
      const [registered] = await Promise.all([
        register('tester', `a$r${round}`, location),
        service.post(`/v1/table/a$d${round}/drop`),
      ]);
      if (registered.status === 200) assert.equal(await count(`a$r${round}`), 2);
      else refused(await service.post(`/v1/table/a$r${round}/exists`), 404, 4);
    }
    assert.deepEqual(
      readdirSync(join(service.tablesFolder, 'a')).filter((name) => /^d\d/.test(name)),
      [],
    );
  });
});
