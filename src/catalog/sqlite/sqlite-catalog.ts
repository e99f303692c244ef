import type { NewId } from '../../kernel/clock.ts';
import { SqlCatalog } from '../sql-catalog.ts';
import type { SqlSession } from '../sql-session.ts';
import { type Holder, removeHolder, writeHolder } from './holder.ts';

/** A catalog in a file that this process holds. Made by `openSqliteCatalog`. */
export class SqliteCatalog extends SqlCatalog {
  readonly #path: string;
  readonly #holder: Holder;
  #closing: Promise<void> | undefined;

  constructor(session: SqlSession, newId: NewId, path: string, holder: Holder) {
    super(session, newId);
    this.#path = path;
    this.#holder = holder;
  }

  /** Tells other processes the URL of this service, and whether it accepts tokens that `lancegate token` mints. */
  announce(service: { readonly url: string; readonly acceptsOwnTokens?: boolean }): void {
    writeHolder(this.#path, { ...this.#holder, ...service });
  }

  /** Harmless when repeated. */
  override close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The holder file goes while the lock still stands: later it may be another process's. */
  #close(): Promise<void> {
    removeHolder(this.#path);
    return super.close();
  }
}
