/**
 * Who holds the catalog: a small file next to it, for the message a second process gets. It is not the lock (that is
 * SQLite's, and ends with its process); a crash leaves the file behind and the next holder overwrites it, and a process
 * that cannot read it, or write it on a full disk, goes on without.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface CatalogHolder {
  readonly pid: number;
  /** ISO 8601. */
  readonly startedAt: string;
  /** What runs, such as `lancegate serve`. */
  readonly command: string;
  /** Where it listens, once it does. */
  readonly url: string | undefined;
  /** Whether it accepts tokens that `lancegate token` mints; undefined before it listens. */
  readonly acceptsOwnTokens?: boolean;
}

const holderFileOf = (catalogFile: string): string => join(dirname(catalogFile), 'lancegate.holder.json');

/** Synchronous, so that nothing runs between taking the lock and saying so. */
export function writeHolder(catalogFile: string, holder: CatalogHolder): void {
  const file = holderFileOf(catalogFile);
  try {
    writeFileSync(`${file}.new`, JSON.stringify(holder), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch {
    removeHolder(catalogFile); // what is there tells of another process
  }
}

export function removeHolder(catalogFile: string): void {
  try {
    rmSync(holderFileOf(catalogFile), { force: true });
  } catch {
    // It stays, as after a crash.
  }
}

/** `process 1234 (lancegate serve on http://127.0.0.1:2333, since …)`, or what is known instead. */
export function showHolder(catalogFile: string): string {
  const holder = readHolder(catalogFile);
  if (holder === undefined) return 'another process';
  const where = holder.url === undefined ? '' : ` on ${holder.url}`;
  return `process ${holder.pid} (${holder.command}${where}, since ${holder.startedAt})`;
}

function readHolder(catalogFile: string): CatalogHolder | undefined {
  try {
    return parseHolder(JSON.parse(readFileSync(holderFileOf(catalogFile), 'utf8')));
  } catch {
    return undefined;
  }
}

function parseHolder(value: unknown): CatalogHolder | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { pid, startedAt, command, url } = value as Partial<Record<keyof CatalogHolder, unknown>>;
  if (typeof pid !== 'number' || typeof startedAt !== 'string' || typeof command !== 'string') return undefined;
  return { pid, startedAt, command, url: typeof url === 'string' ? url : undefined };
}
