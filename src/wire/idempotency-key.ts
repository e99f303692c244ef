import { invalidInput } from '../kernel/errors.ts';
import type { IdempotencyKey } from '../kernel/ids.ts';

export const idempotencyKeyHeader = 'idempotency-key';

/**
 * The key as such, or between quotes as the IETF draft has it (a structured-field string); both mean the same key. A
 * header that is sent twice arrives joined by a comma and a space, and so is refused.
 */
export function parseIdempotencyKey(header: string | undefined): IdempotencyKey | undefined {
  if (header === undefined) return undefined;
  const key = header.startsWith('"') ? unquoted(header) : header;
  if (key !== undefined && key.length <= 255 && /^[\x21-\x7e]+$/.test(key)) return key as IdempotencyKey;
  throw invalidInput(`${idempotencyKeyHeader}: expected 1 to 255 visible ASCII characters`);
}

/** RFC 9651, 3.3.3; undefined where a quote or backslash stands alone. */
function unquoted(text: string): string | undefined {
  const inside = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1];
  return inside?.replaceAll(/\\(["\\])/g, '$1');
}
