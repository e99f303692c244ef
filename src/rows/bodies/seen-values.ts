/** Finds what the values of a column have in common, and so the type that it gets. docs/rows.md has the rule for users. */
import { mostFields } from '../../arrow/schema/read-schema.ts';
import type { DataType, Field } from '../../arrow/schema/schema.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { parseMoment } from './time-values.ts';

type Kind = 'bool' | 'int' | 'long' | 'float' | 'date' | 'timestamp' | 'zoned' | 'text' | 'list' | 'object';

export const mostDepth = 16;

/** It has the columns of rows, or the fields of objects, by their names, with what was seen of each. */
export class SeenFields {
  readonly byName = new Map<string, SeenValues>();
  readonly #isText: boolean;
  readonly #count: { fields: number };

  /** Where `isText`, all values come as texts, as those of CSV do. `count` is of all columns and fields of a source. */
  constructor(isText: boolean, count = { fields: 0 }) {
    this.#isText = isText;
    this.#count = count;
  }

  see(values: object, place: string, depth = 0): void {
    for (const [name, value] of Object.entries(values)) {
      let field = this.byName.get(name);
      if (field === undefined) {
        this.#count.fields += 1;
        if (this.#count.fields > mostFields)
          throw invalidInput(`${place}: the rows have more than ${mostFields} columns and fields`);
        field = new SeenValues(this.#count, this.#isText, place);
        this.byName.set(name, field);
      }
      field.see(value, place, depth);
    }
  }
}

export class SeenValues {
  readonly #count: { fields: number };
  readonly #isText: boolean;
  /** The first value stands there. */
  readonly place: string;
  readonly #kinds = new Set<Kind>();
  /** Lists had these. */
  readonly #lengths = new Set<number>();
  #items: SeenValues | undefined;
  readonly fields: SeenFields;
  #hasNull = false;

  constructor(count: { fields: number }, isText: boolean, place: string) {
    this.#count = count;
    this.#isText = isText;
    this.place = place;
    this.fields = new SeenFields(false, count);
  }

  see(value: unknown, place: string, depth = 0): void {
    if (value === null || value === undefined) {
      this.#hasNull = true;
      return;
    }
    if (depth > mostDepth) throw invalidInput(`${place}: values are nested more than ${mostDepth} deep`);
    const read = this.#isText && typeof value === 'string' ? valueOfText(value) : value;
    this.#kinds.add(kindOf(read));
    if (Array.isArray(read)) this.#seeItems(read, place, depth);
    else if (isObject(read)) this.fields.see(read, place, depth + 1);
  }

  #seeItems(items: readonly unknown[], place: string, depth: number): void {
    if (this.#lengths.size < 2) this.#lengths.add(items.length);
    this.#items ??= new SeenValues(this.#count, false, place);
    for (const item of items) this.#items.see(item, place, depth + 1);
  }

  /** Only a column itself can become a vector. */
  field(name: string, isColumn: boolean): Field {
    const made = (type: DataType, children: readonly Field[] = []): Field => ({
      name,
      nullable: true,
      type,
      dictionary: undefined,
      children,
      metadata: new Map(),
    });
    const kinds = this.#kinds;
    const are = (...allowed: Kind[]): boolean => kinds.size > 0 && kinds.isSubsetOf(new Set(allowed));
    if (are('bool')) return made({ kind: 'bool' });
    if (are('int')) return made({ kind: 'int', bitWidth: 64, signed: true });
    if (are('int', 'float')) return made({ kind: 'float', bitWidth: 64 });
    if (are('date')) return made({ kind: 'date', unit: 'day' });
    if (are('timestamp')) return made({ kind: 'timestamp', unit: 'us', timezone: undefined });
    if (are('zoned')) return made({ kind: 'timestamp', unit: 'us', timezone: 'UTC' });
    const items = this.#items;
    if (items !== undefined && are('list')) {
      const [listSize = 0] = this.#lengths;
      const isVector = isColumn && this.#lengths.size === 1 && listSize > 0 && items.areNumbers;
      if (isVector) return made({ kind: 'fixed_size_list', listSize }, [itemOf(made({ kind: 'float', bitWidth: 32 }))]);
      return made({ kind: 'list' }, [items.field('item', false)]);
    }
    if (are('object') && this.fields.byName.size > 0) {
      return made(
        { kind: 'struct' },
        [...this.fields.byName].map(([of, values]) => values.field(of, false)),
      );
    }
    return made({ kind: 'utf8' });
  }

  get hasValue(): boolean {
    return this.#kinds.size > 0;
  }

  get areNumbers(): boolean {
    return !this.#hasNull && this.#kinds.isSubsetOf(new Set<Kind>(['int', 'long', 'float']));
  }
}

const itemOf = (field: Field): Field => ({ ...field, name: 'item' });

function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'boolean':
      return 'bool';
    case 'number':
      return Number.isSafeInteger(value) ? 'int' : 'float';
    case 'bigint':
      return BigInt.asIntN(64, value) === value ? 'int' : 'long';
    case 'string': {
      const moment = parseMoment(value);
      if (moment === undefined) return 'text';
      if (moment.isDate) return 'date';
      return moment.offsetSeconds === undefined ? 'timestamp' : 'zoned';
    }
    default:
      return Array.isArray(value) ? 'list' : 'object';
  }
}

const integer = /^-?(?:0|[1-9]\d*)$/;
const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Digits behind a zero are a text, such as a postal code. */
function valueOfText(text: string): unknown {
  if (integer.test(text)) return BigInt(text);
  if (number.test(text)) return Number.isInteger(Number(text)) ? Number(text) + 0.5 : Number(text);
  if (/^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true';
  return /^[[{]/.test(text) ? (nestedIn(text) ?? text) : text;
}

function nestedIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // compensated: it is a text
  }
}
