/**
 * Merges, appends and creates where no file can be opened any more, and prints what became of each as JSON. To be run in a
 * process with a low limit, which this fills.
 */

import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const [folder = ''] = process.argv.slice(2);
const location = 't.lance' as Location;

const openEngine = () => engineIn(folder, join(folder, 'tables'));

const rows = (ids: readonly number[], v: string) =>
  ipcFile(
    new Table({
      id: vectorFromArray([...ids], new Int32()),
      v: vectorFromArray(
        ids.map(() => v),
        new Utf8(),
      ),
    }),
  );

/** `free` files can still be opened at once. */
async function starved(free: number, work: () => Promise<unknown>): Promise<string> {
  const taken = takeAllFiles();
  for (const file of taken.splice(0, free)) closeSync(file);
  try {
    await work();
    return 'done';
  } catch (error) {
    return error instanceof LancegateError ? error.kind : String(error);
  } finally {
    for (const file of taken) closeSync(file);
  }
}

function takeAllFiles(): number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    return taken;
  }
}

/** A look of its own, with nothing remembered. */
const stored = (place: Location, filter: string): Promise<number> =>
  openEngine()
    .open({ location: place })
    .then(
      (dataset) => dataset.countRows(ownSql(filter)),
      () => 0,
    );

const engine = openEngine();
(await createDataset(engine, location, rows([1, 2], 'old'), {})).close();
const outcomes: { readonly call: string; readonly free: number; readonly outcome: string; readonly rows: number }[] =
  [];
// A create syncs what it wrote, so it has several files open at once.
for (const free of [0, 1, 2, 3, 16]) {
  const dataset = await openEngine().open({ location });
  const spec = { ...upsertOn('id'), useIndex: false };
  const merged = await starved(free, () => mergeInto(dataset, spec, rows([1, 100 + free], `merged ${free}`)));
  outcomes.push({ call: 'merge', free, outcome: merged, rows: await stored(location, `v = 'merged ${free}'`) });
  const appended = await starved(free, () => appendTo(dataset, rows([200 + free], `appended ${free}`)));
  outcomes.push({ call: 'append', free, outcome: appended, rows: await stored(location, `v = 'appended ${free}'`) });
  const other = `other_${free}.lance` as Location;
  const created = await starved(free, () => createDataset(engine, other, rows([1], 'created'), {}));
  outcomes.push({ call: 'create', free, outcome: created, rows: await stored(other, 'true') });
}
console.log(JSON.stringify(outcomes));
