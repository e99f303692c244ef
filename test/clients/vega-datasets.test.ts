import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { Connection } from '@lancedb/lancedb';
import { Field, Float64, Int32, Schema, Table, tableFromIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { compare, connectByApiKey, openDirectly, type Row, rowsInOrder } from './connections.ts';

const dataFolder = join(dirname(createRequire(import.meta.url).resolve('vega-datasets')), '..', 'data');
const read = (file: string): Buffer => readFileSync(join(dataFolder, file));

const airportColumns = ['iata', 'name', 'city', 'state', 'country', 'latitude', 'longitude'] as const;
const airportSchema = new Schema(
  airportColumns.map((name) => new Field(name, name.endsWith('itude') ? new Float64() : new Utf8(), true)),
);

/** A quoted cell may hold commas; no cell of this file holds a quote or a line break. */
function readAirports(): Row[] {
  const [, ...lines] = read('airports.csv').toString('utf8').trim().split('\n');
  return lines.map((line) => {
    const cells = [...line.matchAll(/(?:^|,)(?:"([^"]*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
    return Object.fromEntries(
      airportColumns.map((name, i) => [name, name.endsWith('itude') ? Number(cells[i]) : cells[i]]),
    );
  });
}

const numericMovieColumns = ['IMDB Rating', 'IMDB Votes', 'Production Budget', 'Running Time min', 'US Gross'];
const movieColumns = ['Title', 'Release Date', 'Director', 'Major Genre', ...numericMovieColumns];
const movieSchema = new Schema([
  new Field('number', new Int32(), false),
  ...movieColumns.map((name) => new Field(name, numericMovieColumns.includes(name) ? new Float64() : new Utf8(), true)),
]);

/** Some titles are numbers in the file, and no column of it is a key. */
function readMovies(): Row[] {
  const movies = JSON.parse(read('movies.json').toString('utf8')) as Row[];
  return movies.map((movie, number) => {
    const { Title: title, ...rest } = Object.fromEntries(movieColumns.map((name) => [name, movie[name] ?? null]));
    return { number, Title: title === null ? null : String(title), ...rest };
  });
}

/** The file's own columns behind a number for each flight. */
function readFlights(): Table {
  const flights = tableFromIPC(read('flights-200k.arrow'));
  const number = vectorFromArray(Int32Array.from({ length: flights.numRows }, (_, i) => i));
  return new Table({ number, ...Object.fromEntries(flights.schema.names.map((n) => [n, flights.getChild(n)!])) });
}

describe('real data, loaded and upserted through the LanceDB SDK, is on the storage root row by row', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
    await database.createNamespace(['vega']);
  });

  test('airports.csv: 2 000 airports get their values, the others are new', async () => {
    const airports = readAirports();
    const placeless = airports.slice(0, 2000).map((row) => ({ ...row, latitude: null, longitude: null }));
    const table = await database.createTable('airports', placeless, ['vega'], { schema: airportSchema });
    const answer = await table.mergeInsert('iata').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(airports);
    assert.deepEqual([answer.numUpdatedRows, answer.numInsertedRows], [2000, 1376]);
    const stored = await rowsInOrder(await openDirectly(service, 'airports', { namespace: ['vega'] }), 'iata');
    assert.deepEqual(
      stored,
      [...airports].sort((a, b) => compare(a.iata, b.iata)),
    );
    assert.deepEqual(stored.find(({ iata }) => iata === '35A')?.name, 'Union County, Troy Shelton');
  });

  test('movies.json: NULLs, spaces in column names, texts of all alphabets', async () => {
    const movies = readMovies();
    const even = movies.filter((_, i) => i % 2 === 0);
    const table = await database.createTable('movies', even, ['vega'], { schema: movieSchema });
    const upsert = table.mergeInsert('number').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    const answer = await upsert.execute(movies);
    assert.deepEqual([answer.numUpdatedRows, answer.numInsertedRows], [1601, 1600]);
    const stored = await rowsInOrder(await openDirectly(service, 'movies', { namespace: ['vega'] }), 'number');
    assert.deepEqual(stored, movies);
  });

  test('movies.json: a composite key of columns with spaces, compared by a filter over another', async () => {
    const table = await database.openTable('movies', ['vega']);
    const answer = await table
      .mergeInsert(['number', '`Release Date`'])
      .whenMatchedUpdateAll({ where: 'source.`IMDB Rating` > target.`IMDB Rating`' })
      .execute(readMovies().map((movie) => ({ ...movie, 'IMDB Rating': 9 })));
    const rated = readMovies().filter((movie) => Number(movie['IMDB Rating'] ?? 9) < 9);
    assert.equal(answer.numUpdatedRows, rated.length);
    const direct = await openDirectly(service, 'movies', { namespace: ['vega'] });
    assert.equal(
      await direct.countRows('`IMDB Rating` = 9'),
      rated.length + readMovies().filter((m) => m['IMDB Rating'] === 9).length,
    );
  });

  test('flights-200k.arrow: 100 000 flights are created, 150 000 upserted', async () => {
    const flights = readFlights();
    const table = await database.createTable('flights', flights.slice(0, 100_000), ['vega']);
    const upsert = table.mergeInsert('number').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    const answer = await upsert.execute(flights.slice(50_000));
    assert.deepEqual([answer.numUpdatedRows, answer.numInsertedRows], [50_000, 100_000]);

    const stored = await (await openDirectly(service, 'flights', { namespace: ['vega'] })).toArrow();
    assert.equal(stored.numRows, flights.numRows);
    const numbers = stored.getChild('number')!.toArray() as Int32Array;
    for (const { name } of flights.schema.fields) {
      const before = flights.getChild(name)!.toArray() as Float32Array;
      const found = stored.getChild(name)!.toArray() as Float32Array;
      const misplaced = found.findIndex((value, row) => !Object.is(value, before[numbers[row] ?? -1]));
      assert.equal(misplaced, -1, `${name} of flight ${numbers[misplaced]}`);
    }
    assert.equal(new Set(numbers).size, flights.numRows);
  });
});
