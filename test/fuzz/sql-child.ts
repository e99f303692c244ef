/** Gives filters to the engine in a process of its own, which may die of them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@lancedb/lancedb';
import type { NativeTable } from '#src/engine/lance/native/native.ts';
import { buildNativeIndex } from '#src/engine/lance/native/native-index.ts';
import { translateEngineError } from '#src/engine/lance/native/translate-errors.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { CheckedSql } from '#src/kernel/checked-sql.ts';
import type { SqlQuestion, SqlVerdict } from './sql-judge.ts';
import { indexedColumns, sqlTableFile } from './sql-table.ts';

interface Connection {
  createTable(name: string, file: Buffer, mode: string, space: string[], options: undefined): Promise<NativeTable>;
}

const folder = mkdtempSync(join(tmpdir(), 'lancegate-sql-'));
const { inner } = (await connect(folder)) as unknown as { inner: Connection };
const file = sqlTableFile();
const make = async (name: string): Promise<NativeTable> => {
  const table = await inner.createTable(name, file, 'overwrite', [], undefined);
  if (process.env.WITH_INDEX === '1') {
    for (const column of indexedColumns) await buildNativeIndex(table, btreeOn(column));
  }
  return table;
};
const read = await make('read');
let written = await make('written');

async function ask({ way, sql }: SqlQuestion): Promise<number> {
  const filter = sql as CheckedSql;
  if (way === 'count') return read.countRows(filter);
  const merge = written.mergeInsert(['id']);
  if (way === 'update') return (await merge.whenMatchedUpdateAll(filter).execute(file)).numUpdatedRows;
  const { numDeletedRows } = await merge.whenNotMatchedBySourceDelete(filter).execute(file);
  if (numDeletedRows > 0) written = await make('written');
  return numDeletedRows;
}

async function verdictOf(question: SqlQuestion): Promise<SqlVerdict> {
  const start = performance.now();
  const spent = () => ({ ms: performance.now() - start, residentBytes: process.memoryUsage.rss() });
  try {
    return { rows: await ask(question), ...spent() };
  } catch (error) {
    const { kind, message } = translateEngineError(
      question.way === 'count' ? 'count' : 'filtered merge',
      error,
      'the filter',
    );
    return { refusedAs: kind, message, engineText: String(error), ...spent() };
  }
}

process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
process.on('disconnect', () => process.exit(0));
process.on('message', (question: SqlQuestion) => {
  void verdictOf(question).then((verdict) => process.send?.(verdict));
});
process.send?.('ready');
