/**
 * Which storage options a client may set. They travel to the object store together with the operator's own, so only
 * what tunes a write is let through, never what names an endpoint, a proxy, an account, a key or a certificate, or
 * turns a check off (P9). The names are those of Lance (`new_table_…`) and of its object store client.
 */
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';

const allowedKeys: ReadonlySet<string> = new Set([
  // how the table is laid out
  'new_table_data_storage_version',
  'new_table_enable_v2_manifest_paths',
  'new_table_enable_stable_row_ids',
  // how patient the object store client is
  'timeout',
  'connect_timeout',
  'request_timeout',
  'client_max_retries',
  'client_retry_timeout',
  'download_retry_count',
]);

/** Keys are compared in lower case, as the object store client does. `InvalidInput` names the first refused one. */
export function checkStorageOptions(options: Properties): Properties {
  const refused = Object.keys(options).find((key) => !allowedKeys.has(key.toLowerCase()));
  if (refused === undefined) return options;
  const allowed = [...allowedKeys].join(', ');
  throw invalidInput(`storage_options: ${JSON.stringify(refused)} cannot be set by a client; allowed are ${allowed}`);
}
