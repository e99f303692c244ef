import { LRUCache } from 'lru-cache';
import type { TableRef } from '../../kernel/ids.ts';
import type { TableRecord } from '../port.ts';
import { type FullPath, tablePathOf } from '../queries/catalog-db.ts';

/**
 * Rows of tables as they were read. Nearly every request asks for one, and the query costs more than most of what a small read does
 * besides. One process owns the database, so only its own statements change a row, and each of them ends all that is known.
 */
export class KnownTables {
  readonly #records = new LRUCache<FullPath, TableRecord>({ max: 1_000 });
  #changes = 0;

  /** As `read` says, which gives what is durable only (P3). A table that is not there is asked for each time. */
  async find(
    table: TableRef,
    read: (table: TableRef) => Promise<TableRecord | undefined>,
  ): Promise<TableRecord | undefined> {
    const path = tablePathOf(table);
    const known = this.#records.get(path);
    if (known !== undefined) return known;
    const changes = this.#changes;
    const record = await read(table);
    if (record !== undefined && changes === this.#changes) this.#records.set(path, record);
    return record;
  }

  /**
   * To be called before each statement that changes rows of tables, in the connection's turn: a read that waits for the connection
   * sees what the transaction made, and one that had it before is not kept.
   */
  forget(): void {
    this.#changes += 1;
    this.#records.clear();
  }
}

/** Whether a statement of Kysely's may change rows of tables. */
export const changesTables = (sql: string): boolean => !sql.startsWith('select ') && sql.includes('"tables"');
