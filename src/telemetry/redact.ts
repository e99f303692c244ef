/**
 * What a log line may hold: a copy of the fields in which secrets are masked and errors are plain data (P9).
 * Two nets, because either alone has holes: the name of a field says that its value is secret, and some secrets are
 * recognisable wherever they stand.
 */
const mask = '[redacted]';

const secretName = /authorization|cookie|password|secret|token|api[-_]?key|credential|private[-_]?key|access[-_]?key/i;
/** Facts about secrets that are not secret. */
const harmlessName = /(id|count|bytes|ms|kind|type|name)$/i;

/** Bearer credentials, JSON Web Tokens (also halves of one, so that no signed part stays), lancegate's API keys. */
const secretText = /\b(Bearer|Basic)\s+[\w.~+/=-]+|\beyJ[\w-]{8,}(\.[\w-]*){0,4}|\blgk_[\w-]+/gi;

export const redactText = (text: string): string => text.replace(secretText, mask);

function redact(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return redactText(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  // No field of ours is so deep: a cyclic object is not walked for ever.
  if (depth === 8) return '[too deep]';
  if (value instanceof Error) return redactError(value, depth);
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1));
  if (value instanceof Date || value instanceof URL) return redactText(value.toString());
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  return redactFields(value, depth);
}

export function redactFields(fields: object, depth = 0): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value !== undefined && secretName.test(name) && !harmlessName.test(name) ? mask : redact(value, depth + 1),
    ]),
  );
}

/** Keeps what an error carries besides its text, such as `code`, `kind` and `internal`. */
function redactError(error: Error, depth: number): Record<string, unknown> {
  const { cause } = error;
  return {
    ...redactFields({ ...error }, depth),
    type: error.name,
    message: redactText(error.message),
    stack: redactText(error.stack ?? ''),
    ...(cause === undefined ? {} : { cause: redact(cause, depth + 1) }),
    ...(error instanceof AggregateError ? { errors: redact(error.errors, depth + 1) } : {}),
  };
}
