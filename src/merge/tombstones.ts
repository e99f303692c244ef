/**
 * What a branch remembers of rows that were deleted by a mark, so that an older row that comes late does not bring them back. It is in
 * the table configuration of the version that deletes, and goes wherever that goes: to later versions, by whatever program, and to
 * branches, clones and restored versions. Keys are there as digests, which the same columns and values have in every service.
 */
import { createHash } from 'node:crypto';
import { type FieldPath, formatFieldPath, resolveField } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { Properties } from '../kernel/ids.ts';
import { paired } from '../kernel/paired.ts';
import { type Keys, orderedValues } from '../keys/key-columns.ts';
import type { OrderedValue } from '../keys/key-values.ts';

/** So long what is older than a tombstone stays deleted. */
export const tombstoneDays = 7;

/** The manifest has them, which each commit writes anew. A stream of deletions goes on past it: the oldest go first. */
const mostCharacters = 2 ** 20;

const setting = 'lancegate.tombstones';

interface NamedRows {
  readonly chunk: Pick<IpcChunk, 'schema'>;
  readonly keys: Keys;
  readonly on: readonly FieldPath[];
}

interface Tombstone {
  readonly endsAtSeconds: number;
  readonly version: OrderedValue;
}

/**
 * Gives the key of a row a name that no other key of these columns has, beside versions of this column. Of a time the unit is of the
 * name: the same number in another unit is another time.
 */
export function tombstoneNames(
  { chunk: { schema }, keys, on }: NamedRows,
  versionColumn: FieldPath,
): (row: number) => string {
  const named = (path: FieldPath) => {
    const type = resolveField(schema, path)?.type;
    const text = formatFieldPath(path);
    return type !== undefined && 'unit' in type ? [text, type.unit] : text;
  };
  const inOrder = paired(on, keys.columns).toSorted(([a], [b]) => (formatFieldPath(a) < formatFieldPath(b) ? -1 : 1));
  const scope = [named(versionColumn), ...inOrder.map(([path]) => named(path))];
  const values = inOrder.map(([, column]) => orderedValues(column));
  return (row) => {
    const key = JSON.stringify([scope, values.map((valueAt) => String(valueAt(row)))]);
    return createHash('sha256').update(key).digest('base64url').slice(0, 22);
  };
}

export class Tombstones {
  readonly text: string;
  readonly #named: ReadonlyMap<string, Tombstone>;

  private constructor(text: string, named: ReadonlyMap<string, Tombstone>) {
    this.text = text;
    this.#named = named;
  }

  /** Those of a version with these settings. What another program has written there that is none counts for nothing. */
  static of(settings: Properties): Tombstones {
    const text = settings[setting] ?? '';
    return new Tombstones(text, new Map(text.split('\n').flatMap(parsed)));
  }

  static textIn(settings: Properties): string {
    return settings[setting] ?? '';
  }

  get size(): number {
    return this.#named.size;
  }

  /** undefined where there is none that has not ended. */
  at(name: string, nowMs: number): Tombstone | undefined {
    const found = this.#named.get(name);
    return found !== undefined && found.endsAtSeconds * 1_000 > nowMs ? found : undefined;
  }

  /** These and more, without those that have ended, nor the oldest past the bound. A row without a version is older than none. */
  with(deleted: Iterable<readonly [name: string, version: OrderedValue]>, nowMs: number): Tombstones {
    const named = new Map([...this.#named].filter(([name]) => this.at(name, nowMs) !== undefined));
    const endsAtSeconds = Math.ceil(nowMs / 1_000) + tombstoneDays * 86_400;
    for (const [name, version] of deleted) {
      if (version === undefined) continue;
      named.delete(name); // so that the map has the oldest first
      named.set(name, { endsAtSeconds, version });
    }
    const lines = [...named].map(written);
    let [first, characters] = [0, lines.reduce((sum, line) => sum + line.length + 1, 0)];
    while (characters > mostCharacters) characters -= (lines[first++]?.length ?? 0) + 1;
    return new Tombstones(lines.slice(first).join('\n'), new Map([...named].slice(first)));
  }

  get settings(): Properties {
    return { [setting]: this.text };
  }
}

const written = ([name, { endsAtSeconds, version }]: readonly [string, Tombstone]): string =>
  `${name} ${endsAtSeconds} ${shown(version)}`;

/** Finds the version of the tombstone of each row's key; undefined where there are none. */
export const deletedBy =
  (tombstones: Tombstones | undefined, nowMs: number) => (rows: NamedRows, versionColumn: FieldPath) => {
    if (tombstones === undefined || tombstones.size === 0) return undefined;
    const nameOf = tombstoneNames(rows, versionColumn);
    return (row: number): OrderedValue => tombstones.at(nameOf(row), nowMs)?.version;
  };

function shown(version: OrderedValue): string {
  if (typeof version === 'string') return JSON.stringify(version);
  return typeof version === 'bigint' ? `${version}n` : `${version}f`;
}

function parsed(line: string): readonly (readonly [string, Tombstone])[] {
  const [, name, ends, text = ''] = /^([\w-]{22}) (\d{1,15}) (.*)$/.exec(line) ?? [];
  const version = versionIn(text);
  if (name === undefined || version === undefined) return [];
  return [[name, { endsAtSeconds: Number(ends), version }]];
}

function versionIn(text: string): OrderedValue {
  const digits = text.slice(0, -1);
  if (/^-?\d{1,80}n$/.test(text)) return BigInt(digits);
  if (text.endsWith('f')) return Number.isNaN(Number(digits)) ? undefined : Number(digits);
  try {
    const version: unknown = JSON.parse(text);
    return typeof version === 'string' ? version : undefined;
  } catch {
    return undefined;
  }
}
