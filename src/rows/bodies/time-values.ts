/** Reads times of ISO 8601 as the numbers that Arrow has for them. */
import type { TimeUnit } from '../../arrow/schema/schema.ts';

const perSecond: Readonly<Record<TimeUnit, bigint>> = { s: 1n, ms: 1_000n, us: 1_000_000n, ns: 1_000_000_000n };

const moment =
  /^(\d{4}|[+-]\d{6})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?: ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?)?$/i;
const clock = /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$/;

interface Moment {
  /** They are counted since 1970, as the clocks show it that the text is of. */
  readonly seconds: number;
  readonly nanoseconds: number;
  readonly isDate: boolean;
  readonly offsetSeconds: number | undefined;
}

/** Answers undefined for what is no date or time, such as 30 February. */
export function parseMoment(text: string): Moment | undefined {
  const [, year, month, day, hour, minute, second = '0', fraction = '', zone] = moment.exec(text) ?? [];
  if (year === undefined) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined;
  const seconds = clockSeconds(hour ?? '0', minute ?? '0', second);
  const offsetSeconds = zone === undefined ? undefined : parseOffset(zone);
  if (seconds === undefined || Number.isNaN(offsetSeconds)) return undefined;
  return {
    seconds: date.getTime() / 1_000 + seconds,
    nanoseconds: Number(fraction.padEnd(9, '0')),
    isDate: hour === undefined,
    offsetSeconds,
  };
}

function clockSeconds(hour: string, minute: string, second: string): number | undefined {
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  return Number(hour) * 3_600 + Number(minute) * 60 + Number(second);
}

function parseOffset(zone: string): number {
  if (/^[zu]/i.test(zone)) return 0;
  // PostgreSQL leaves minutes out that are none, and BigQuery writes the name of UTC.
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).slice(-2))];
  if (hours > 23 || minutes > 59) return Number.NaN;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 3_600 + minutes * 60);
}

/** The number is in the unit; undefined where digits would be lost, or 64 bits are too few. */
function inUnit(seconds: number, nanoseconds: number, unit: TimeUnit): bigint | undefined {
  const perUnit = perSecond.ns / perSecond[unit];
  const rest = BigInt(nanoseconds);
  if (rest % perUnit !== 0n) return undefined;
  const value = BigInt(seconds) * perSecond[unit] + rest / perUnit;
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/** Answers the days since 1970. */
export function parseDays(text: string): number | undefined {
  const read = parseMoment(text);
  return read?.isDate === true ? read.seconds / 86_400 : undefined;
}

/** A time without an offset is UTC's in a column with a zone; one with an offset fits no column without a zone. */
export function parseTimestamp(text: string, unit: TimeUnit, hasZone: boolean): bigint | undefined {
  const read = parseMoment(text);
  if (read === undefined || (read.offsetSeconds !== undefined && !hasZone)) return undefined;
  return inUnit(read.seconds - (read.offsetSeconds ?? 0), read.nanoseconds, unit);
}

/** Answers the time since midnight. */
export function parseClock(text: string, unit: TimeUnit): bigint | undefined {
  const [, hour, minute, second = '0', fraction = ''] = clock.exec(text) ?? [];
  if (hour === undefined || minute === undefined) return undefined;
  const seconds = clockSeconds(hour, minute, second);
  return seconds === undefined ? undefined : inUnit(seconds, Number(fraction.padEnd(9, '0')), unit);
}

/** Reads seconds as this service writes them: `PT1.5S`. */
export function parseDuration(text: string, unit: TimeUnit): bigint | undefined {
  const [, sign, seconds, fraction = ''] = /^(-?)PT(\d{1,18})(?:\.(\d{1,9}))?S$/.exec(text) ?? [];
  if (seconds === undefined) return undefined;
  const perUnit = perSecond.ns / perSecond[unit];
  const rest = BigInt(fraction.padEnd(9, '0'));
  if (rest % perUnit !== 0n) return undefined;
  const value = (BigInt(seconds) * perSecond[unit] + rest / perUnit) * (sign === '-' ? -1n : 1n);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}
