/** One JSON log line as a person reads it: `13:14:15.123 INFO  table created table=users rows=50`. */
export function textLine(jsonLine: string): string {
  const { time, level, message, error, ...fields } = JSON.parse(jsonLine) as Record<string, unknown>;
  const clockTime = String(time).slice('2026-01-01T'.length, -1);
  const words = Object.entries(fields).map(([name, value]) => `${name}=${showValue(value)}`);
  const head = [clockTime, String(level).toUpperCase().padEnd(5), message, ...words].join(' ');
  return `${head}\n${error === undefined ? '' : `${showError(error)}\n`}`;
}

/** Quoted where a plain word would be ambiguous, or could start a line of its own. */
function showValue(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=\\\p{C}]+$/u.test(value)) return value;
  return JSON.stringify(value);
}

function showError(error: unknown): string {
  if (typeof error !== 'object' || error === null) return `    ${showValue(error)}`;
  const { stack, message, cause, ...rest } = error as Record<string, unknown>;
  const lines = String(stack || message || JSON.stringify(rest)).split('\n');
  const facts = Object.entries(rest).map(([name, value]) => `${name}=${showValue(value)}`);
  return [
    ...lines.map((line) => `    ${line.trimStart()}`),
    ...(facts.length === 0 ? [] : [`    ${facts.join(' ')}`]),
    ...(cause === undefined ? [] : ['    caused by', showError(cause)]),
  ].join('\n');
}
