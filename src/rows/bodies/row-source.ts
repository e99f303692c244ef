/** Rows out of the bytes of a text, as they come. */
import { invalidInput } from '../../kernel/errors.ts';

/** The values of one row, by the names of its columns. They come from a client: its names may be any. */
export interface Row {
  readonly values: Readonly<Record<string, unknown>>;
  /** For refusals, such as `line 7`. */
  readonly place: string;
}

export interface RowSource {
  /** The rows that are complete with these bytes. `InvalidInput` names the place at fault. */
  push(bytes: Uint8Array): readonly Row[] | Promise<readonly Row[]>;
  /** The rows that are complete at the end. */
  end(): readonly Row[] | Promise<readonly Row[]>;
}

/** The text of one row; a longer one would be held twice as JavaScript's values. */
export const mostRowBytes = 8 << 20;

export const rowTooLong = (place: string) => invalidInput(`${place}: a row has at most ${mostRowBytes} bytes`);
