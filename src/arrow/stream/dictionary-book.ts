/** Which dictionaries a schema speaks of, and which of them have arrived. */
import { invalidInput } from '../../kernel/errors.ts';
import type { FlatTable } from '../format/flatbuffer.ts';
import type { Field, Schema } from '../schema/schema.ts';
import { sameType } from '../schema/schema-rules.ts';

export interface DictionaryBatch {
  readonly id: bigint;
  /** The dictionary's values as a column of their own. */
  readonly values: Field;
  readonly header: FlatTable;
}

export class DictionaryBook {
  readonly #values = new Map<bigint, Field>();
  readonly #arrived = new Set<bigint>();

  constructor(schema: Schema) {
    for (const field of schema.fields) this.#enter(field);
  }

  readonly has = (id: bigint): boolean => this.#arrived.has(id);

  /** A delta extends its dictionary. A file cannot say that a dictionary is replaced: the last one would win for all. */
  open(header: FlatTable): DictionaryBatch {
    const id = header.int64(0);
    const isDelta = header.uint8(2, 0) !== 0;
    const values = this.#values.get(id);
    if (values === undefined) throw invalidInput(`no column uses dictionary ${id}`);
    if (this.#arrived.has(id) && !isDelta) throw invalidInput(`dictionary ${id} is replaced within the stream`);
    if (!this.#arrived.has(id) && isDelta) throw invalidInput(`dictionary ${id} begins with a delta`);
    const batch = header.table(1);
    if (batch === undefined) throw invalidInput(`dictionary ${id} has no values`);
    return { id, values, header: batch };
  }

  close(id: bigint): void {
    this.#arrived.add(id);
  }

  #enter(field: Field): void {
    for (const child of field.children) this.#enter(child);
    if (field.dictionary === undefined) return;
    const { id } = field.dictionary;
    const values: Field = { ...field, dictionary: undefined };
    const known = this.#values.get(id);
    if (known !== undefined && !sameType(known, values)) throw invalidInput(`two types share dictionary ${id}`);
    this.#values.set(id, values);
  }
}
