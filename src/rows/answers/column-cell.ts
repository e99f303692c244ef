/** A cell writes the values of a column. */
import type { TextOut } from './text-out.ts';

/** Writes the value in a row. */
export interface Cell {
  write(out: TextOut, row: number): void;
}

/** These functions live as long as the process: V8 drops the machine code of a function that it collects. */
export type WriteColumn<Column> = (column: Column, out: TextOut, row: number) => void;

class ColumnCell<Column> implements Cell {
  readonly #column: Column;
  readonly #write: WriteColumn<Column>;

  constructor(column: Column, write: WriteColumn<Column>) {
    this.#column = column;
    this.#write = write;
  }

  write(out: TextOut, row: number): void {
    this.#write(this.#column, out, row);
  }
}

export const cell = <Column>(column: Column, write: WriteColumn<Column>): Cell => new ColumnCell(column, write);

/** Says where values of a width lie, for a typed array. */
export const placeOf = (bytes: Uint8Array, width: number): [ArrayBufferLike, number, number] => [
  bytes.buffer,
  bytes.byteOffset,
  Math.floor(bytes.length / width),
];

export const wordsOf = (bytes: Uint8Array): Int32Array => new Int32Array(...placeOf(bytes, 4));
