/** Writes times as ISO 8601 has them. A fraction of a second that is zero is left out. */
import type { DataTypeOf, TimeUnit } from '../../arrow/schema/schema.ts';
import { type Cell, cell, type WriteColumn, wordsOf } from './column-cell.ts';
import type { TextOut } from './text-out.ts';

const perSecond: Readonly<Record<TimeUnit, number>> = { s: 1, ms: 1_000, us: 1_000_000, ns: 1_000_000_000 };
const fractionDigits: Readonly<Record<TimeUnit, number>> = { s: 0, ms: 3, us: 6, ns: 9 };
const daySeconds = 86_400;
const [dash, colon, point, letterT] = [0x2d, 0x3a, 0x2e, 0x54];

export const dateText = ({ unit }: DataTypeOf<'date'>, bytes: Buffer): Cell =>
  unit === 'day' ? cell(wordsOf(bytes), writeDay) : inSeconds(bytes, 'ms', writeMidnightOr);

export const timeText = ({ unit }: DataTypeOf<'time'>, bytes: Buffer): Cell =>
  unit === 'us' || unit === 'ns' ? inSeconds(bytes, unit, writeClock) : shortTime(wordsOf(bytes), unit);

const writeDay: WriteColumn<Int32Array> = (days, out, row) => writeDate(out, days[row]!);

function shortTime(values: Int32Array, unit: TimeUnit): Cell {
  const per = perSecond[unit];
  const write = (out: TextOut, row: number): void => {
    const value = values[row]!;
    const whole = Math.floor(value / per);
    const day = Math.floor(whole / daySeconds);
    writeClock(out, day, whole - day * daySeconds, value - whole * per, unit);
  };
  return { write };
}

/** It gets a day since 1970, its seconds, and a fraction in the unit: V8 takes no memory for small whole numbers. */
type WriteTime = (out: TextOut, day: number, second: number, fraction: number, unit: TimeUnit) => void;

interface TimeColumn {
  readonly words: Int32Array;
  readonly unit: TimeUnit;
  readonly per: number;
  readonly write: WriteTime;
}

/** Each value has eight bytes. */
const inSeconds = (bytes: Buffer, unit: TimeUnit, write: WriteTime): Cell =>
  cell({ words: wordsOf(bytes), unit, per: perSecond[unit], write }, writeInSeconds);

const writeInSeconds: WriteColumn<TimeColumn> = ({ words, unit, per, write }, out, row) => {
  const high = words[2 * row + 1]!;
  const low = words[2 * row]! >>> 0;
  const value = high * 2 ** 32 + low;
  const perDay = per * daySeconds;
  if (Number.isSafeInteger(value)) {
    const day = Math.floor(value / perDay);
    const ofDay = value - day * perDay;
    const second = Math.floor(ofDay / per);
    write(out, day, second, ofDay - second * per, unit);
    return;
  }
  const exact = (BigInt(high) << 32n) | BigInt(low);
  const ofDay = Number(((exact % BigInt(perDay)) + BigInt(perDay)) % BigInt(perDay));
  const second = Math.floor(ofDay / per);
  write(out, Number((exact - BigInt(ofDay)) / BigInt(perDay)), second, ofDay - second * per, unit);
};

export function durationText(bytes: Buffer, unit: TimeUnit): Cell {
  const per = BigInt(perSecond[unit]);
  const write = (out: TextOut, row: number): void => {
    const value = bytes.readBigInt64LE(row * 8);
    const size = value < 0n ? -value : value;
    out.ascii(`${value < 0n ? '-' : ''}PT${size / per}`);
    writeFraction(out, Number(size % per), unit);
    out.ascii('S');
  };
  return { write };
}

export function intervalText(bytes: Buffer, { unit }: DataTypeOf<'interval'>): Cell {
  const textAt = (row: number): string => {
    switch (unit) {
      case 'year_month':
        return `P${bytes.readInt32LE(row * 4)}M`;
      case 'day_time':
        return `P${bytes.readInt32LE(row * 8)}DT${bytes.readInt32LE(row * 8 + 4) / 1_000}S`;
      case 'month_day_nano': {
        const [months, days] = [bytes.readInt32LE(row * 16), bytes.readInt32LE(row * 16 + 4)];
        return `P${months}M${days}DT${Number(bytes.readBigInt64LE(row * 16 + 8)) / 1e9}S`;
      }
    }
  };
  return { write: (out, row) => out.ascii(textAt(row)) };
}

function writeFraction(out: TextOut, fraction: number, unit: TimeUnit): void {
  if (fraction === 0) return;
  out.byte(point);
  out.padded(fraction, fractionDigits[unit]);
}

/** So many days are from year 0 to 1970 in the calendar of Gregory, if it had no beginning. */
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
  const shifted = (days + daysBefore1970 - 60) | 0;
  const era = shifted < 0 ? -1 : (shifted / daysIn400Years) | 0;
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

function writeClock(out: TextOut, _day: number, second: number, fraction: number, unit: TimeUnit): void {
  const minute = (second / 60) | 0;
  const hour = (minute / 60) | 0;
  out.triple(hour, minute - hour * 60, second - minute * 60, colon);
  writeFraction(out, fraction, unit);
}

function writeTime(out: TextOut, day: number, second: number, fraction: number, unit: TimeUnit): void {
  writeDate(out, day);
  out.byte(letterT);
  writeClock(out, day, second, fraction, unit);
}

function writeMidnightOr(out: TextOut, day: number, second: number, fraction: number): void {
  if (second === 0 && fraction === 0) writeDate(out, day);
  else writeTime(out, day, second, fraction, 'ms');
}

export function timestampText({ unit, timezone }: DataTypeOf<'timestamp'>, bytes: Buffer): Cell {
  if (timezone === undefined) return inSeconds(bytes, unit, writeTime);
  const offsetOf = zoneOffset(timezone);
  return inSeconds(bytes, unit, (out, day, second, fraction) => {
    const offset = offsetOf(day * daySeconds + second);
    const daysLater = Math.floor((second + offset) / daySeconds);
    writeTime(out, day + daysLater, second + offset - daysLater * daySeconds, fraction, unit);
    writeOffset(out, offset);
  });
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

/** Says how far the clocks of a zone are ahead of UTC at a time, in seconds: not at all in a zone that is not known here. */
function zoneOffset(timezone: string): (seconds: number) => number {
  const format = timezone === 'UTC' ? undefined : formatOf(timezone);
  if (format === undefined) return () => 0;
  const known = new Map<number, number>();
  return (seconds) => {
    const quarter = Math.floor(seconds / quarterSeconds);
    const before = known.get(quarter);
    if (before !== undefined) return before;
    const offset = offsetAt(format, quarter * quarterSeconds * 1_000);
    if (known.size >= 4_096) known.clear();
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
