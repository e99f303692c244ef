/** Where the database is, from a URL such as `postgres://user@host/database?sslmode=verify-full`. */
import { readFile } from 'node:fs/promises';
import type { ClientConfig } from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';

export interface DatabaseAddress {
  /** A password in it is believed; without one, `passwordFile` says it, or `PGPASSWORD` or `PGPASSFILE` of the process. */
  readonly url: string;
  /** Read for each new connection, so that the password may change. */
  readonly passwordFile?: string | undefined;
}

export interface DatabaseConnection {
  readonly config: ClientConfig;
  /** For the operator; without the password. */
  readonly name: string;
}

/** Throws where the URL names a certificate that cannot be read. */
export function connectionOf({ url, passwordFile }: DatabaseAddress): DatabaseConnection {
  const parsed = toClientConfig(parse(url, { useLibpqCompat: true }));
  const { host = '127.0.0.1', port = 5432, database } = parsed;
  // Editors end files with a newline that is not part of the password.
  const password =
    parsed.password ||
    (passwordFile === undefined ? undefined : async () => (await readFile(passwordFile, 'utf8')).replace(/\r?\n$/, ''));
  const config = {
    ...parsed,
    ...(password === undefined ? {} : { password }),
    ssl: parsed.ssl ?? !isThisMachine(host),
    application_name: 'lancegate',
  };
  return { config, name: `database '${database}' on ${host.startsWith('/') ? host : `${host}:${port}`}` };
}

/** Elsewhere the server must prove who it is, unless the URL has an `sslmode` that says otherwise. */
const isThisMachine = (host: string): boolean => /^(\/|localhost$|::1$|127(\.\d+){3}$)/.test(host);
