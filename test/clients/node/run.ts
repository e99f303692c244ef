/**
 * Runs every method of the LanceDB SDK for Node; `test/clients/python/run.py` starts it and reports what it prints.
 *   node test/clients/node/run.ts URL_OF_THE_SERVICE API_KEY FOLDER_OF_ITS_OWN
 */
import { methodsOf, runCases } from './cases.ts';
import { methodCases } from './lancedb-cases.ts';
import { queryCases } from './lancedb-queries.ts';
import { refusedCases } from './lancedb-refused.ts';
import { embedded, internal, kinds, LanceDbSide, overHttp, people } from './lancedb-sides.ts';
import { indexCases, mergeCases, tagAndBranchCases } from './lancedb-table-parts.ts';

const [url = '', apiKey = '', folder = ''] = process.argv.slice(2);
const [service, peer] = [await overHttp(url, apiKey), await embedded(folder)];
// Connections and tables are of subclasses, which have the methods.
const samples: Readonly<Record<string, object>> = {
  Connection: Object.getPrototypeOf(peer.connection),
  Table: Object.getPrototypeOf(await peer.connection.createTable('sample', people)),
};
const every = Object.entries(kinds).flatMap(([kind, owner]) => {
  return methodsOf(samples[kind] ?? owner.prototype)
    .filter((name) => !internal.has(name))
    .map((name) => `${kind}.${name}`);
});
const lines = await runCases(
  [...methodCases, ...indexCases, ...mergeCases, ...tagAndBranchCases, ...queryCases, ...refusedCases],
  every,
  async (number) => new LanceDbSide(service, number),
  async (number) => new LanceDbSide(peer, number),
);
console.log(JSON.stringify(lines));
