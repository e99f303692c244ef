import { invalidInput } from '../kernel/errors.ts';

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
