import type { Schema } from './schema.ts';

/** Larger ones are read anew each time: 128 of the largest kept take some 10 MB. */
const maxMessageBytes = 8 << 10;
const maxSchemas = 128;

/**
 * Schemas that were read and checked, by the bytes of their message. A client sends the same one with each stream, and
 * reading it costs 20 us, as much as the keys of a hundred rows.
 */
export class KnownSchemas {
  readonly #schemas = new Map<string, Schema>();

  /** What `read` gives for these bytes, now or before. Nothing is kept where it throws. */
  of(message: Buffer, read: () => Schema): Schema {
    if (message.length > maxMessageBytes) return read();
    const key = message.toString('latin1');
    const schema = this.#schemas.get(key) ?? read();
    this.#schemas.delete(key);
    this.#schemas.set(key, schema);
    if (this.#schemas.size > maxSchemas) this.#forgetOldest();
    return schema;
  }

  /** A Map iterates in the order of insertion. */
  #forgetOldest(): void {
    for (const key of this.#schemas.keys()) {
      this.#schemas.delete(key);
      return;
    }
  }
}
