/**
 * Which storage options a client may set. They travel to the object store together with the operator's own, so only
 * what tunes a write is let through, never what names an endpoint, a proxy, an account, a key or a certificate, or
 * turns a check off (P9). The names are those of Lance (`new_table_…`) and of its object store client.
 */
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';

const allowedKeys: ReadonlyMap<string, readonly string[] | 'any value'> = new Map<
  string,
  readonly string[] | 'any value'
>([
  // how the table is laid out; older formats store NULLs as zeros, and newer ones than the stable still change
  ['new_table_data_storage_version', ['stable', '2.0', '2.1', '2.2']],
  ['new_table_enable_v2_manifest_paths', ['true', 'false']],
  ['new_table_enable_stable_row_ids', ['true', 'false']],
  // how patient the object store client is
  ['timeout', 'any value'],
  ['connect_timeout', 'any value'],
  ['request_timeout', 'any value'],
  ['client_max_retries', 'any value'],
  ['client_retry_timeout', 'any value'],
  ['download_retry_count', 'any value'],
]);

/** Keys are compared in lower case, as the object store client does. `InvalidInput` names the first refused one. */
export function checkStorageOptions(options: Properties): Properties {
  for (const [key, value] of Object.entries(options)) {
    const values = allowedKeys.get(key.toLowerCase());
    if (values === undefined) {
      const allowed = [...allowedKeys.keys()].join(', ');
      throw invalidInput(`storage_options: ${JSON.stringify(key)} cannot be set by a client; allowed are ${allowed}`);
    }
    if (values !== 'any value' && !values.includes(value)) {
      throw invalidInput(`storage_options: ${key} can be ${values.join(', ')}`);
    }
  }
  return options;
}
