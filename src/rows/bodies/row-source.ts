/** Sources cut rows out of the bytes of a text, as they come. */
import { invalidInput, LancegateError } from '../../kernel/errors.ts';

/** The values stand by the names of their columns. A client may give these any names. */
export interface Row {
  readonly values: Readonly<Record<string, unknown>>;
  /** Refusals name it, such as `line 7`. */
  readonly place: string;
}

/** Takes why each row was left out, its place first, and its number. Without it the first such row refuses the whole. */
export type LeftOut = ((reason: string, row: number) => void) | undefined;

/** Answers what `work` makes of a row; undefined where the row is left out. */
export function orLeftOut<Made>(leftOut: LeftOut, row: number, work: () => Made): Made | undefined {
  if (leftOut === undefined) return work();
  try {
    return work();
  } catch (error) {
    if (!(error instanceof LancegateError) || error.entry.status !== 400) throw error;
    leftOut(error.message, row);
    return undefined;
  }
}

/** Takes a row that a source has cut out. A source calls it at once with what reads the row; undefined where there is none. */
export type TakeRow = (read: () => Row | undefined) => void;

/** It cuts a text into rows. `InvalidInput` names the place at fault. */
export interface RowSource {
  push(bytes: Uint8Array): void | Promise<void>;
  end(): void | Promise<void>;
}

/** Texts are UTF-8, and what is not is refused. */
export const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The longest text of one row. This would hold a longer one twice, as values of JavaScript. */
export const mostRowBytes = 8 << 20;

export const rowTooLong = (place: string) => invalidInput(`${place}: a row has at most ${mostRowBytes} bytes`);
