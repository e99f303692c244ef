/**
 * What the value of an option can be. Every type reads text (a flag, an environment variable and a default are all
 * text), says what it expects in words that an error can use, and shows a value in the form it would read back.
 */
import { isIPv4, isIPv6 } from 'node:net';
import { resolve } from 'node:path';
import { dayMs, durationUnitsMs, readDurationMs } from '../kernel/clock.ts';
import type { HistoryRules } from '../kernel/history.ts';
import { entriesOf } from '../kernel/paired.ts';

export interface ValueType<T> {
  /** Completes "expected …" in an error. */
  readonly expects: string;
  /** Stands for the value in the help text. */
  readonly placeholder: string;
  /** `switch` may stand without a value and be negated with `--no-`; `list` may be repeated. */
  readonly arity: 'switch' | 'one' | 'list';
  /** True if the text must not be shown, neither when it is right nor when it is wrong. */
  readonly secret: boolean;
  /** The value, or undefined for a text that is not one. Relative paths start at `cwd`. */
  parse(text: string, cwd: string): T | undefined;
  /** A secret is shown as a mask. */
  show(value: T): string;
}

const secretMask = '********';

const plain = <T>(
  placeholder: string,
  expects: string,
  parse: ValueType<T>['parse'],
  show: (value: T) => string = String,
): ValueType<T> => ({ placeholder, expects, arity: 'one', secret: false, parse, show });

export const text: ValueType<string> = plain('TEXT', 'a text that is not empty', (raw) => raw.trim() || undefined);

export const path: ValueType<string> = plain('PATH', 'a path', (raw, cwd) =>
  raw === '' || raw.includes('\0') ? undefined : resolve(cwd, raw),
);

/** The value is `log`, `off`, or a file; the slash keeps a misspelt word from creating a file. */
export const recordsTarget: ValueType<string> = plain(
  'log|off|PATH',
  'log, off, or a path with a slash in it',
  (raw, cwd) => {
    if (raw === 'log' || raw === 'off') return raw;
    return raw.includes('/') ? path.parse(raw, cwd) : undefined;
  },
);

export const boolean: ValueType<boolean> = {
  ...plain('BOOL', 'true or false', (raw) => {
    if (['true', '1'].includes(raw.toLowerCase())) return true;
    return ['false', '0'].includes(raw.toLowerCase()) ? false : undefined;
  }),
  arity: 'switch',
};

export const integer = (least: number, most: number): ValueType<number> =>
  plain('N', `a whole number from ${least} to ${most}`, (raw) =>
    /^\d{1,15}$/.test(raw) ? within(Number(raw), least, most) : undefined,
  );

/** A part of a whole is written as a percentage; its value is above 0 and at most 1. */
export const percent: ValueType<number> = plain(
  'PERCENT',
  'a percentage from 1% to 100%',
  (raw) => {
    const [, digits] = /^(\d{1,3})%$/.exec(raw) ?? [];
    const whole = digits === undefined ? undefined : within(Number(digits), 1, 100);
    return whole === undefined ? undefined : whole / 100;
  },
  (part) => `${Math.round(part * 100)}%`,
);

export const oneOf = <const Choice extends string>(choices: readonly Choice[]): ValueType<Choice> =>
  plain(choices.join('|'), `one of ${choices.join(', ')}`, (raw) => choices.find((choice) => choice === raw));

/** What a shell cannot easily say has a name. */
export const cellDelimiter: ValueType<string> = plain(
  'CHARACTER',
  'a character such as ; or |, or the word tab',
  (raw) => (raw === 'tab' || raw === '\\t' ? '\t' : /^[^\w"\r\n\u0080-\uffff]$/.test(raw) ? raw : undefined),
  (character) => (character === '\t' ? 'tab' : character),
);

export const fieldName: ValueType<string> = plain('FIELD', 'the name of a field, without the path to it', (raw) =>
  /^\w[\w-]{0,99}$/.test(raw) ? raw : undefined,
);

/** It is in lower case, as the engine knows functions. */
export const functionName: ValueType<string> = plain('NAME', 'the name of a function', (raw) =>
  /^[a-z_][a-z0-9_]*$/i.test(raw) ? raw.toLowerCase() : undefined,
);

/** `type` may come any number of times: separated by commas, or by repeating the flag. */
export const listOf = <T>(type: ValueType<T>): ValueType<readonly T[]> => ({
  ...plain(
    `${type.placeholder},…`,
    `a list, separated by commas; each ${type.expects}`,
    (raw, cwd) => {
      const items = raw.split(',').map((item) => type.parse(item.trim(), cwd));
      return items.every((item) => item !== undefined) ? Object.freeze(items) : undefined;
    },
    (items: readonly T[]) => items.map((item) => type.show(item)).join(','),
  ),
  arity: 'list',
});

export const secret: ValueType<string> = {
  ...plain(
    'SECRET',
    'a text that is not empty',
    (raw) => raw || undefined,
    () => secretMask,
  ),
  secret: true,
};

/** A JSON object of texts whose values may be credentials: shown with its keys only. */
export const secretMap: ValueType<Readonly<Record<string, string>>> = {
  ...plain('JSON', 'a JSON object whose values are strings', parseStringMap, (map) =>
    JSON.stringify(Object.fromEntries(Object.keys(map).map((key) => [key, secretMask]))),
  ),
  secret: true,
};

function parseStringMap(raw: string): Readonly<Record<string, string>> | undefined {
  const value = parseJson(raw);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  return entries.every((entry): entry is [string, string] => typeof entry[1] === 'string')
    ? Object.freeze(Object.fromEntries(entries))
    : undefined;
}

function parseJson(raw: string): unknown {
  try {
    return JSON.parse(raw);
  } catch {
    return undefined; // translated: not JSON is "not a value" like every other wrong text
  }
}

/** An http(s) URL kept as it was written, because issuers are compared as text. No user, password or fragment in it. */
export const httpUrl: ValueType<string> = plain(
  'URL',
  'an http or https URL without user, password or fragment',
  (raw) => {
    const url = URL.parse(raw);
    if (url === null || !['http:', 'https:'].includes(url.protocol)) return undefined;
    return url.username || url.password || url.hash ? undefined : raw;
  },
);

/** It is the address of one machine, or of a network with the length of its prefix. An IPv4 address is written as such. */
export const addressRange: ValueType<string> = plain(
  'ADDRESS',
  'an IP address such as 10.0.0.1, or a range such as 10.0.0.0/8 or fd00::/8',
  (raw) => {
    const [, address = '', prefix] = /^([^/%]*)(?:\/(\d{1,3}))?$/.exec(raw) ?? [];
    const isAddress = isIPv4(address) || (isIPv6(address) && !/^[0:]*:ffff:/i.test(address));
    return isAddress && Number(prefix ?? 0) <= (isIPv4(address) ? 32 : 128) ? raw : undefined;
  },
);

const objectStores = ['s3', 'gs', 'az', 'abfss'];

/** It is a folder, or a location in an object store. Credentials belong into the storage options. */
export const storageRoot: ValueType<string> = plain(
  'PATH|URI',
  `a path, or a URI such as s3://bucket/prefix (${objectStores.join(', ')}) without user, query or fragment`,
  (raw, cwd) => {
    const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(raw)?.[1];
    if (scheme === undefined) return path.parse(raw, cwd);
    const url = URL.parse(raw);
    const isPlain = url !== null && url.host !== '' && !url.password && !url.search && !url.hash;
    // An abfss URI names its container where other URIs have a user.
    const isAnonymous = scheme === 'abfss' || url?.username === '';
    return isPlain && isAnonymous && objectStores.includes(scheme) ? raw.replace(/\/+$/, '') : undefined;
  },
);

const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'];
const databaseParameters = ['host', 'user', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'];

/** It names a PostgreSQL database. Its URL may hold a password, which is masked. */
export const databaseUrl: ValueType<string> = {
  ...plain(
    'URL',
    `a URL such as postgres://user@host/database?sslmode=verify-full; it must name the database, may have ${databaseParameters.join(', ')}, and sslmode is ${sslModes.join(', ')}`,
    (raw) => {
      const url = /^postgres(ql)?:\/\//.test(raw) ? URL.parse(raw) : null;
      if (url === null || url.hash !== '' || !/^\/[^/]+$/.test(url.pathname)) return undefined;
      const parameters = [...url.searchParams];
      const isKnown = parameters.every(([name]) => databaseParameters.includes(name));
      const isSslMode = sslModes.includes(url.searchParams.get('sslmode') ?? 'disable');
      return isKnown && isSslMode && (url.hostname || url.searchParams.has('host')) ? raw : undefined;
    },
    (raw) => {
      const url = new URL(raw);
      if (url.password !== '') url.password = secretMask;
      return url.href;
    },
  ),
  secret: true,
};

/** What stands before `/v1`: the empty text, or segments that each begin with a slash. */
export const basePath: ValueType<string> = plain(
  '/PATH',
  'a path such as /lance, of letters, digits, ".", "_", "~" and "-"',
  (raw) => (/^(\/[\w.~-]+)*\/?$/.test(raw) && !/\/\.{1,2}(\/|$)/.test(raw) ? raw.replace(/\/$/, '') : undefined),
  (value) => value || '/',
);

export const KiB = 2 ** 10;
export const MiB = 2 ** 20;
export const GiB = 2 ** 30;
export const TiB = 2 ** 40;

const byteUnits: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: KiB,
  MIB: MiB,
  GIB: GiB,
  TIB: TiB,
};

export const bytes = (least: number, most: number): ValueType<number> =>
  plain(
    'SIZE',
    `a size such as 64KiB, 256MiB or 1GiB, from ${showBytes(least)} to ${showBytes(most)}`,
    (raw) => {
      const [, count, unit] = /^(\d{1,15})\s?([a-z]*)$/i.exec(raw) ?? [];
      const unitBytes = byteUnits[unit?.toUpperCase() ?? ''];
      return unitBytes === undefined ? undefined : within(Number(count) * unitBytes, least, most);
    },
    showBytes,
  );

export function showBytes(value: number): string {
  const found = entriesOf({ TiB, GiB, MiB, KiB }).find(([, unitBytes]) => value > 0 && value % unitBytes === 0);
  return found === undefined ? `${value}B` : `${value / found[1]}${found[0]}`;
}

/** Node's timers hold 31 bits of milliseconds; a longer one would fire at once. */
export const longestTimerMs = 24 * dayMs;

export const durationMs = (leastMs: number, mostMs: number): ValueType<number> =>
  plain(
    'DURATION',
    `a duration such as 500ms, 30s, 5m or 1h30m, from ${showDuration(leastMs)} to ${showDuration(mostMs)}`,
    (raw) => {
      const valueMs = readDurationMs(raw);
      return valueMs === undefined ? undefined : within(valueMs, leastMs, mostMs);
    },
    showDuration,
  );

/** `AGE:all` and then `AGE:STEP`, separated by commas; ages and steps grow. */
export const historyRules: ValueType<HistoryRules> = plain(
  'AGE:STEP,…',
  'ages and steps such as 1m:all,1d:1h,7d:1d; the first step is all, and each age and step is more than the one before',
  (raw) => {
    const rules = raw.split(',').map((rule) => {
      const [, age = '', step = ''] = /^\s*([^:\s]+):([^:\s]+)\s*$/.exec(rule) ?? [];
      return { forMs: readDurationMs(age) ?? 0, everyMs: step === 'all' ? 0 : (readDurationMs(step) ?? 0) };
    });
    const [first, ...others] = rules;
    if (first === undefined || first.everyMs !== 0 || first.forMs < 1_000 || rules.length > 10) return undefined;
    const grow = others.every((rule, i) => {
      const { forMs, everyMs } = rules[i] ?? first;
      return rule.forMs > forMs && rule.everyMs > everyMs;
    });
    return grow && rules.every(({ forMs }) => forMs <= 3_650 * dayMs) ? [first, ...others] : undefined;
  },
  (rules) =>
    rules.map(({ forMs, everyMs }) => `${showDuration(forMs)}:${everyMs === 0 ? 'all' : showDuration(everyMs)}`).join(),
);

export function showDuration(valueMs: number): string {
  let restMs = valueMs;
  const parts = Object.entries(durationUnitsMs).map(([unit, unitMs]) => {
    const count = Math.floor(restMs / unitMs);
    restMs -= count * unitMs;
    return count === 0 ? '' : `${count}${unit}`;
  });
  return parts.join('') || '0s';
}

const within = (value: number, least: number, most: number): number | undefined =>
  value >= least && value <= most ? value : undefined;
