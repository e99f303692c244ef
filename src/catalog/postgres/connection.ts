/** What a URL such as `postgres://user@host/database?sslmode=verify-full` says, as `pg` takes it. */

import type { ClientConfig } from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';

export function connectionOf(url: string): ClientConfig {
  return { ...toClientConfig(parse(url, { useLibpqCompat: true })), application_name: 'lancegate' };
}
