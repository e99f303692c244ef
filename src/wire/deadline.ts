import { invalidInput } from '../kernel/errors.ts';
import type { QueryParameters } from './query-parameters.ts';

export const timeoutHeader = 'x-request-timeout-ms';

interface TimeoutLimits {
  readonly defaultTimeoutMs: number;
  readonly maxTimeoutMs: number;
}

export interface Timeout {
  readonly timeoutMs: number;
  /** The latest that it may move to while the service waits for the body. */
  readonly withBodyMs: number;
}

/**
 * How long a request allows itself: the smaller of the `timeout` parameter and the header that the LanceDB SDKs send,
 * and never more than the service allows.
 */
export function readTimeout(query: QueryParameters, header: string | undefined, limits: TimeoutLimits): Timeout {
  const asked = [query.one('timeout', (text) => parseDurationMs(text ?? '', 'timeout')), parseHeader(header)];
  const given = asked.filter((timeoutMs) => timeoutMs !== undefined);
  const timeoutMs = Math.min(...given, limits.maxTimeoutMs);
  if (given.length > 0) return { timeoutMs, withBodyMs: timeoutMs };
  return { timeoutMs: Math.min(limits.defaultTimeoutMs, limits.maxTimeoutMs), withBodyMs: limits.maxTimeoutMs };
}

function parseHeader(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text) && Number(text) > 0) return Number(text);
  throw invalidInput(`${timeoutHeader}: expected a whole number of milliseconds above zero`);
}

const unitMs = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;
const part = (unit: string): string => String.raw`(?:(?<${unit}>\d{1,12}(?:\.\d{1,9})?)${unit})?`;
const grammar = new RegExp(`^${Object.keys(unitMs).map(part).join('')}$`);

/** `500ms`, `30s`, `1.5m`, `1h30m`: units from large to small, each once; a bare number counts seconds. In ms, above 0. */
export function parseDurationMs(text: string, field: string): number {
  const durationMs = /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) * unitMs.s : sumMs(text);
  if (durationMs > 0) return durationMs;
  throw invalidInput(`${field}: expected a duration above zero, such as 500ms, 30s, 5m or 1h30m`);
}

/** NaN for a text that is no duration. */
function sumMs(text: string): number {
  const groups = grammar.exec(text)?.groups;
  if (groups === undefined) return Number.NaN;
  return Object.entries(unitMs).reduce((sum, [unit, factor]) => sum + Number(groups[unit] ?? 0) * factor, 0);
}
