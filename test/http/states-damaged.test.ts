/** What a table answers whose files are missing or torn, or that a newer Lance wrote: what is wrong, and nothing is written (P6). */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { editManifest, newestManifest } from '#test/fixtures/edited-manifest.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows } from './rows.ts';

const ids = Array.from({ length: 50 }, (_, id) => id);

type Ask = (service: TestService, table: string) => Promise<Answer>;

/** An upsert by row addresses too, once the table has been upserted into. */
const upsert: Ask = (service, table) => service.post(`/v1/table/${table}/merge_insert?on=id`, people([1, 99], 'new'));
const reads: Readonly<Record<string, Ask>> = {
  count: (service, table) => service.post(`/v1/table/${table}/count_rows`),
  'filtered count': (service, table) => service.post(`/v1/table/${table}/count_rows`, { predicate: 'id > 3' }),
  describe: (service, table) => service.post(`/v1/table/${table}/describe`),
  'create exist_ok': (service, table) => service.post(`/v1/table/${table}/create?mode=exist_ok`, people([1], 'x')),
  'branches/list': (service, table) => service.post(`/v1/table/${table}/branches/list`),
};
const writes: Readonly<Record<string, Ask>> = {
  upsert,
  'insert alone': (service, table) =>
    service.post(`/v1/table/${table}/merge_insert?on=id&when_not_matched_insert_all=true`, people([100], 'x')),
  maintain: (service, table) => service.post(`/v1/table/${table}/maintain`),
  'branches/create': (service, table) => service.post(`/v1/table/${table}/branches/create`, { name: 'b' }),
};

/** Upserts enough of them that the writer knows where each row is. */
async function makeTable(service: TestService, table: string): Promise<string> {
  succeeded(await service.post(`/v1/table/${table}/create`, people(ids, 'first')));
  for (let i = 0; i < 6; i++) succeeded(await upsert(service, table));
  return join(service.tablesFolder, `${table}.lance`);
}

/** A version with an index, which no row is in the way of. */
async function commitOutside(service: TestService, table: string): Promise<void> {
  await (await (await connect(service.tablesFolder)).openTable(table)).createIndex('id');
}

const everyFile = (path: string): readonly string[] =>
  existsSync(path) ? readdirSync(path, { recursive: true }).map(String).sort() : [];

const versionOf = (path: string): number => {
  const name = newestManifest(path).split('/').at(-1) ?? '';
  return Number(2n ** 64n - 1n - BigInt(name.split('.')[0] ?? ''));
};
const nextManifest = (path: string): string => join(path, '_versions', manifestNames(versionOf(path) + 1)[0]);

const damages: Readonly<Record<string, { do: (path: string) => void; says: RegExp }>> = {
  'its folder is gone': { do: (path) => rmSync(path, { recursive: true }), says: /its folder is missing$/ },
  '_versions is gone': {
    do: (path) => rmSync(join(path, '_versions'), { recursive: true }),
    says: /its versions are missing$/,
  },
  '_versions is empty': {
    do: (path) => {
      rmSync(join(path, '_versions'), { recursive: true });
      mkdirSync(join(path, '_versions'));
    },
    says: /its versions are missing$/,
  },
  'data is gone': { do: (path) => rmSync(join(path, 'data'), { recursive: true }), says: /data files are missing$/ },
  'data is another folder': {
    do: (path) => {
      renameSync(join(path, 'data'), join(path, 'data.old'));
      mkdirSync(join(path, 'data'));
    },
    says: /data files are missing$/,
  },
  '_deletions is gone': {
    do: (path) => rmSync(join(path, '_deletions'), { recursive: true }),
    says: /deletion vectors are missing$/,
  },
  'its next manifest is empty': {
    do: (path) => writeFileSync(nextManifest(path), ''),
    says: /the manifest of version \d+ is empty$/,
  },
  'its next manifest is garbage': {
    do: (path) => writeFileSync(nextManifest(path), 'x'.repeat(500)),
    says: /the manifest of version \d+ is torn$/,
  },
  'its manifest is cut short': {
    do: (path) => truncateSync(newestManifest(path), 100),
    says: /the manifest of version \d+ is torn$/,
  },
};

describe('a table that is damaged on storage', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
  });

  for (const isOpen of [true, false]) {
    describe(isOpen ? 'while it is open' : 'before it is opened anew', () => {
      const cases = Object.entries(damages).map(([name, damage], index) => {
        return { name, damage, table: `t${index}${isOpen ? '' : '_cold'}` };
      });
      // One start for all of them, since a start opens none.
      before(async () => {
        for (const { table } of cases) await makeTable(service, table);
        if (!isOpen) await service.restart();
      });

      for (const { name, damage, table } of cases) {
        test(`refuses everything while ${name}`, async () => {
          const path = join(service.tablesFolder, `${table}.lance`);
          const isFolderGone = name === 'its folder is gone';
          damage.do(path);
          const left = everyFile(path);
          for (const [operation, ask] of Object.entries({ ...writes, ...reads })) {
            const answer = await ask(service, table);
            refused(answer, 500, 19, /^the table is damaged on storage: /);
            assert.match(String(answer.body.error), isOpen || !isFolderGone ? damage.says : /missing/, operation);
            assert.deepEqual(everyFile(path), left, operation);
          }
          const isLogged = service.log.some((line) => line.includes('TableDamaged') && line.includes(path));
          assert.ok(isLogged || isFolderGone);
          succeeded(await service.post(`/v1/table/${table}/create?mode=overwrite`, people([7], 'again')));
          succeeded(await upsert(service, table));
          succeeded(await service.post(`/v1/table/${table}/drop`));
          succeeded(await service.post(`/v1/table/${table}/create`, people([8], 'once more')));
          assert.deepEqual((await service.post<unknown>(`/v1/table/${table}/count_rows`)).body, 1);
        });
      }
    });
  }

  test('is dropped as it is', async () => {
    const path = await makeTable(service, 'dropped');
    rmSync(join(path, 'data'), { recursive: true });
    succeeded(await service.post('/v1/table/dropped/drop'));
    assert.equal(existsSync(path), false);
  });

  test('is as it was once its files are back', async () => {
    const path = await makeTable(service, 'back');
    renameSync(join(path, 'data'), join(path, 'elsewhere'));
    refused(await upsert(service, 'back'), 500, 19);
    refused(await upsert(service, 'back'), 500, 19);
    renameSync(join(path, 'elsewhere'), join(path, 'data'));
    succeeded(await upsert(service, 'back'));
    assert.equal((await storedRows(service, 'back')).length, 51);
  });
});

describe('a table that a newer Lance wrote', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
  });

  for (const isOpen of [true, false]) {
    const how = isOpen ? 'open' : 'cold';
    test(`is refused by name of the feature flag that its readers need (${how})`, async () => {
      const path = await makeTable(service, `reader_${how}`);
      if (!isOpen) await service.restart();
      await commitOutside(service, `reader_${how}`);
      editManifest(path, { readerFlags: 1n | 1024n, writerFlags: 1n });
      for (const ask of Object.values({ ...reads, ...writes })) {
        refused(await ask(service, `reader_${how}`), 400, 19, /newer version of Lance .* feature flag 1024,/);
      }
      succeeded(await service.post(`/v1/table/reader_${how}/drop`));
    });

    test(`is read, and not written, where only its writers need one (${how})`, async () => {
      const path = await makeTable(service, `writer_${how}`);
      if (!isOpen) await service.restart();
      await commitOutside(service, `writer_${how}`);
      editManifest(path, { readerFlags: 1n, writerFlags: 1n | (1n << 63n) });
      const left = everyFile(path);
      for (const ask of Object.values(reads)) succeeded(await ask(service, `writer_${how}`));
      for (const [operation, ask] of Object.entries(writes)) {
        refused(
          await ask(service, `writer_${how}`),
          400,
          19,
          /newer version of Lance .* feature flag 9223372036854775808,/,
        );
        assert.deepEqual(everyFile(path), left, operation);
      }
    });

    test(`is refused where rows may be in a write-ahead log of Lance's own (${how})`, async () => {
      const path = await makeTable(service, `log_${how}`);
      if (!isOpen) await service.restart();
      await commitOutside(service, `log_${how}`);
      editManifest(path, { indexName: '__lance_mem_wal' });
      for (const ask of Object.values({ ...reads, ...writes })) {
        refused(await ask(service, `log_${how}`), 400, 19, /write-ahead log \(index __lance_mem_wal\)/);
      }
    });
  }

  test('is written to where its flags are known to the engine, also if a commit of our own does not know them', async () => {
    const path = await makeTable(service, 'known');
    await commitOutside(service, 'known');
    editManifest(path, { readerFlags: 1n, writerFlags: 1n | 32n });
    succeeded(await upsert(service, 'known'));
    assert.equal((await storedRows(service, 'known')).length, 51);
  });
});
