/** Opens a catalog, reserves a creation, says so, and waits to be killed. */
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { place, table } from '#test/contract/catalog/fixtures.ts';

const catalog = await openSqliteCatalog(process.argv[2]!, { holder: { command: 'a test' } });
await catalog.reserveCreation(table('t'), undefined, place('1'));
process.stdout.write('reserved\n');
setInterval(() => {}, 1000);
