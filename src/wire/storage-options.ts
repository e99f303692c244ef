/**
 * Which storage options a client may set. They travel to the object store together with the operator's own, so only
 * what tunes a write is let through, never what names an endpoint, a proxy, an account, a key or a certificate, or
 * turns a check off (P9). The names are those of Lance (`new_table_…`) and of its object store client.
 */
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';

/** By key: the values it can have; undefined: any. */
const allowed: ReadonlyMap<string, readonly string[] | undefined> = new Map([
  // how the table is laid out; older formats store NULLs as zeros, and newer ones than the stable still change
  ['new_table_data_storage_version', ['stable', '2.0', '2.1', '2.2']],
  ['new_table_enable_v2_manifest_paths', ['true', 'false']],
  ['new_table_enable_stable_row_ids', ['true', 'false']],
  // how patient the object store client is
  ['timeout', undefined],
  ['connect_timeout', undefined],
  ['request_timeout', undefined],
  ['client_max_retries', undefined],
  ['client_retry_timeout', undefined],
  ['download_retry_count', undefined],
]);

/** Keys are compared in lower case, as the object store client does. `InvalidInput` names the first refused one. */
export function checkStorageOptions(options: Properties): Properties {
  for (const [key, value] of Object.entries(options)) {
    const lowerKey = key.toLowerCase();
    if (!allowed.has(lowerKey)) {
      const keys = [...allowed.keys()].join(', ');
      throw invalidInput(`storage_options: ${JSON.stringify(key)} cannot be set by a client; allowed are ${keys}`);
    }
    const values = allowed.get(lowerKey);
    if (values !== undefined && !values.includes(value)) {
      throw invalidInput(`storage_options: ${key} can be ${values.join(', ')}`);
    }
  }
  return options;
}
