/** Changes whose result is known from the version they make. */
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { numbersFrom } from '#test/http/wide-table.ts';

export const location = 't.lance' as Location;

const file = (ids: readonly number[], text: string): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray(ids, new Int32()),
      text: vectorFromArray(
        ids.map(() => text),
        new Utf8(),
      ),
    }),
  );

export const firstRows = (): IpcFile => file(numbersFrom(0, 50), 'version 1');

/** Version `n` updates two keys, inserts one, and deletes one of those before: two steps. */
export async function changeInShadow(dataset: Dataset): Promise<number> {
  const version = (await dataset.version()) + 1;
  const shadow = await dataset.shadow();
  await mergeInto(
    shadow,
    upsertOn('id'),
    file([version % 50, (version + 7) % 50, 1_000 + version], `version ${version}`),
  );
  await shadow.deleteWhere(ownSql(`id = ${1_000 + version - 3}`));
  const made = await shadow.commit();
  if (made === 'overtaken') throw new Error('no other program commits');
  return made.version;
}

/** Keys and texts at a version, ascending. */
export function rowsAt(version: number): [number, string][] {
  const rows = new Map(numbersFrom(0, 50).map((id) => [id, 'version 1']));
  for (let each = 2; each <= version; each += 1) {
    for (const id of [each % 50, (each + 7) % 50, 1_000 + each]) rows.set(id, `version ${each}`);
    rows.delete(1_000 + each - 3);
  }
  return [...rows].sort(([a], [b]) => a - b);
}
