/** The two ways to the same tables: the LanceDB SDK over HTTP, as users have it, and LanceDB on the folder itself. */
import { join } from 'node:path';
import { type Connection, type ConnectionOptions, connect, type Table } from '@lancedb/lancedb';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { systemClock } from '#src/kernel/clock.ts';
import type { TestService } from '#test/fixtures/service.ts';

export type Row = Readonly<Record<string, unknown>>;

export const allRights = 'lancegate:admin';

/** As `lancegate api-key create` makes one while the service runs. */
export async function makeApiKey({ dataFolder }: TestService, ...scopes: readonly string[]): Promise<string> {
  using keyFile = new ApiKeyFile(join(dataFolder, 'api-keys.sqlite'));
  const store = new ApiKeyStore(keyFile, systemClock);
  return (await store.create({ subject: 'loader', scopes })).key;
}

/** `credential` is whatever the SDK takes: an API key, an OAuth configuration, extra headers. */
export const connectOver = (service: TestService, credential: Partial<ConnectionOptions>): Promise<Connection> =>
  connect('db://lancegate', { hostOverride: service.url, ...credential });

export const connectByApiKey = async (service: TestService, ...scopes: readonly string[]): Promise<Connection> =>
  connectOver(service, { apiKey: await makeApiKey(service, ...(scopes.length === 0 ? [allRights] : scopes)) });

/** The table as it lies on disk, without the service. Every namespace is a folder of its own. */
export async function openDirectly(
  { tablesFolder }: TestService,
  name: string,
  { namespace = [], branch }: { readonly namespace?: readonly string[]; readonly branch?: string } = {},
): Promise<Table> {
  const folder = await connect(join(tablesFolder, ...namespace));
  return folder.openTable(name, [], branch === undefined ? {} : { branch });
}

/** All rows as plain objects, in the order of a column whose values differ. */
export async function rowsInOrder(table: Table, column: string): Promise<readonly Row[]> {
  const rows = (await table.query().toArray()).map((row) => ({ ...(row as Row) }));
  return rows.sort((a, b) => compare(a[column], b[column]));
}

/** Numbers by size, texts by code unit; NULL comes first. */
export function compare(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  return (a as string | number | bigint) < (b as string | number | bigint) ? -1 : 1;
}

/** What the SDK makes of the answer: which status, and which of our words the user gets to see. */
export const refusal =
  (...expected: readonly RegExp[]) =>
  (error: unknown): boolean =>
    error instanceof Error && expected.every((pattern) => pattern.test(error.message));
