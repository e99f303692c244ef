import { invalidInput } from '../kernel/errors.ts';
import { parseDurationMs } from './durations.ts';
import type { QueryParameters } from './query-parameters.ts';

export const timeoutHeader = 'x-request-timeout-ms';

export interface TimeoutLimits {
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
