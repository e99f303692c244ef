/** Times as ISO 8601 has them. A fraction of a second that is zero is left out. */
import type { DataType, TimeUnit } from '../../arrow/schema/schema.ts';
import type { TextOut } from './text-out.ts';

type Temporal = Extract<DataType, { readonly kind: 'date' | 'time' | 'timestamp' }>;
/** Writes the value in a row. */
type TimeText = (out: TextOut, bytes: Buffer, row: number) => void;

const perSecond: Readonly<Record<TimeUnit, number>> = { s: 1, ms: 1_000, us: 1_000_000, ns: 1_000_000_000 };
const fractionDigits: Readonly<Record<TimeUnit, number>> = { s: 0, ms: 3, us: 6, ns: 9 };
const daySeconds = 86_400;
const [dash, colon, point, letterT] = [0x2d, 0x3a, 0x2e, 0x54];

export function temporalText(type: Temporal): TimeText {
  switch (type.kind) {
    case 'date':
      if (type.unit === 'day') return (out, bytes, row) => writeDate(out, bytes.readInt32LE(row * 4));
      return (out, bytes, row) => writeMidnightOr(out, secondsAt(bytes, row, 'ms'));
    case 'time': {
      const { unit } = type;
      if (unit === 'us' || unit === 'ns')
        return (out, bytes, row) => writeClock(out, secondsAt(bytes, row, unit), unit);
      return (out, bytes, row) => writeClock(out, split(bytes.readInt32LE(row * 4), unit), unit);
    }
    case 'timestamp':
      return timestampText(type.unit, type.timezone);
  }
}

/** So many seconds. */
export const durationText =
  (unit: TimeUnit): TimeText =>
  (out, bytes, row) => {
    const value = bytes.readBigInt64LE(row * 8);
    const size = value < 0n ? -value : value;
    const per = BigInt(perSecond[unit]);
    out.ascii(`${value < 0n ? '-' : ''}PT${size / per}`);
    writeFraction(out, Number(size % per), unit);
    out.ascii('S');
  };

export function intervalText(unit: Extract<DataType, { readonly kind: 'interval' }>['unit']): TimeText {
  switch (unit) {
    case 'year_month':
      return (out, bytes, row) => out.ascii(`P${bytes.readInt32LE(row * 4)}M`);
    case 'day_time':
      return (out, bytes, row) =>
        out.ascii(`P${bytes.readInt32LE(row * 8)}DT${bytes.readInt32LE(row * 8 + 4) / 1_000}S`);
    case 'month_day_nano':
      return (out, bytes, row) => {
        const [months, days] = [bytes.readInt32LE(row * 16), bytes.readInt32LE(row * 16 + 4)];
        out.ascii(`P${months}M${days}DT${Number(bytes.readBigInt64LE(row * 16 + 8)) / 1e9}S`);
      };
  }
}

interface Seconds {
  readonly whole: number;
  /** In the unit, from zero. */
  readonly fraction: number;
}

function split(value: number, unit: TimeUnit): Seconds {
  const whole = Math.floor(value / perSecond[unit]);
  return { whole, fraction: value - whole * perSecond[unit] };
}

function secondsAt(bytes: Buffer, row: number, unit: TimeUnit): Seconds {
  const value = bytes.readInt32LE(row * 8 + 4) * 2 ** 32 + bytes.readUInt32LE(row * 8);
  if (Number.isSafeInteger(value)) return split(value, unit);
  const exact = bytes.readBigInt64LE(row * 8);
  const per = BigInt(perSecond[unit]);
  const fraction = ((exact % per) + per) % per;
  return { whole: Number((exact - fraction) / per), fraction: Number(fraction) };
}

function writeFraction(out: TextOut, fraction: number, unit: TimeUnit): void {
  if (fraction === 0) return;
  out.byte(point);
  out.padded(fraction, fractionDigits[unit]);
}

/** The days from year 0 to 1970, in the calendar of Gregory without a beginning. */
const daysBefore1970 = 719_528;
const daysIn400Years = 146_097;

/** ISO 8601 has four digits for years that are not agreed upon otherwise; others are written as JavaScript does, with six. */
function writeDate(out: TextOut, days: number): void {
  if (days < -daysBefore1970 || days > 2_932_896) {
    const date = new Date(days * daySeconds * 1_000);
    out.ascii(Number.isNaN(date.getTime()) ? `${days} days` : date.toISOString().replace(/T.*/, ''));
    return;
  }
  // From 1 March of year 0 on, so that a leap day is the last of its year (Hinnant, "chrono-compatible low-level date algorithms").
  const shifted = days + daysBefore1970 - 60;
  const era = Math.floor(shifted / daysIn400Years);
  const dayOfEra = shifted - era * daysIn400Years;
  const leapDays = ((dayOfEra / 1_460) | 0) - ((dayOfEra / 36_524) | 0) + ((dayOfEra / 146_096) | 0);
  const yearOfEra = ((dayOfEra - leapDays) / 365) | 0;
  const dayOfYear = dayOfEra - (365 * yearOfEra + ((yearOfEra / 4) | 0) - ((yearOfEra / 100) | 0));
  const fromMarch = ((5 * dayOfYear + 2) / 153) | 0;
  const month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  const century = (year / 100) | 0;
  out.padded(century, 2);
  out.triple(year - century * 100, month, dayOfYear - (((153 * fromMarch + 2) / 5) | 0) + 1, dash);
}

function writeClock(out: TextOut, { whole, fraction }: Seconds, unit: TimeUnit): void {
  const second = (whole - Math.floor(whole / daySeconds) * daySeconds) | 0;
  const minute = (second / 60) | 0;
  const hour = (minute / 60) | 0;
  out.triple(hour, minute - hour * 60, second - minute * 60, colon);
  writeFraction(out, fraction, unit);
}

function writeTime(out: TextOut, seconds: Seconds, unit: TimeUnit): void {
  writeDate(out, Math.floor(seconds.whole / daySeconds));
  out.byte(letterT);
  writeClock(out, seconds, unit);
}

function writeMidnightOr(out: TextOut, seconds: Seconds): void {
  if (seconds.whole % daySeconds === 0 && seconds.fraction === 0) writeDate(out, seconds.whole / daySeconds);
  else writeTime(out, seconds, 'ms');
}

function timestampText(unit: TimeUnit, timezone: string | undefined): TimeText {
  if (timezone === undefined) return (out, bytes, row) => writeTime(out, secondsAt(bytes, row, unit), unit);
  const offsetOf = zoneOffset(timezone);
  return (out, bytes, row) => {
    const { whole, fraction } = secondsAt(bytes, row, unit);
    const offset = offsetOf(whole);
    writeTime(out, { whole: whole + offset, fraction }, unit);
    writeOffset(out, offset);
  };
}

function writeOffset(out: TextOut, seconds: number): void {
  const minutes = Math.abs(Math.trunc(seconds / 60));
  out.ascii(seconds === 0 ? 'Z' : seconds < 0 ? '-' : '+');
  if (seconds === 0) return;
  out.padded((minutes / 60) | 0, 2);
  out.byte(colon);
  out.padded(minutes % 60, 2);
}

/** Zones change their offset on quarters of an hour. */
const quarterSeconds = 900;
const mostQuarters = 4_096;

/** How far its clocks are ahead of UTC at a time, in seconds; zero in a zone that is not known here. */
function zoneOffset(timezone: string): (seconds: number) => number {
  const format = timezone === 'UTC' ? undefined : formatOf(timezone);
  if (format === undefined) return () => 0;
  const known = new Map<number, number>();
  return (seconds) => {
    const quarter = Math.floor(seconds / quarterSeconds);
    const before = known.get(quarter);
    if (before !== undefined) return before;
    const offset = offsetAt(format, quarter * quarterSeconds * 1_000);
    if (known.size >= mostQuarters) known.clear();
    known.set(quarter, offset);
    return offset;
  };
}

function formatOf(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
  } catch {
    return undefined; // compensated: the column's type names the zone, and the time is UTC's
  }
}

function offsetAt(format: Intl.DateTimeFormat, ms: number): number {
  if (Number.isNaN(new Date(ms).getTime())) return 0;
  const name = format.formatToParts(ms).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  const [, sign, hours = '0', minutes = '0'] = /GMT([+-])(\d\d):(\d\d)/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 3_600 + Number(minutes) * 60);
}
