import { CliError } from '../cli-error.ts';
import { at, type ColumnType, type Place } from './column-type.ts';
import type { Column, RowSource } from './encode.ts';

/** A cell that was quoted is text even if it is empty; one that was not is then null. */
interface Cell {
  readonly text: string;
  readonly quoted: boolean;
}

/** RFC 4180 with a header row; lines end in LF or CRLF. */
export function readCsv(text: string): RowSource {
  const [header, ...records] = splitRecords(text.replace(/^\uFEFF/, ''));
  const names = header?.map((cell) => cell.text) ?? [];
  refuseDuplicates(names);
  refuseRagged(names.length, records);
  return {
    names,
    column(name, type) {
      const cells = records.map((record) => record[names.indexOf(name)]!);
      return readColumn(name, type ?? inferCsvType(cells), cells);
    },
  };
}

const readColumn = (name: string, type: ColumnType, cells: readonly Cell[]): Column => ({
  name,
  type,
  values: cells.map((cell, index) => readCell(cell, type, { row: index + 1, column: name })),
});

/** One match for each cell: quoted or plain, and what ends it. */
const cellPattern = /(?:"((?:[^"]|"")*)"|([^",\r\n][^,\r\n]*)?)(,|\r?\n|$)/y;

function splitRecords(text: string): readonly (readonly Cell[])[] {
  const records: Cell[][] = [];
  let record: Cell[] = [];
  cellPattern.lastIndex = 0;
  while (cellPattern.lastIndex < text.length || record.length > 0) {
    const match = cellPattern.exec(text);
    if (match === null) throw new CliError(`record ${records.length + 1}: a quote is misplaced or not closed`);
    const [, quoted, plain, end] = match;
    record.push({ text: quoted?.replaceAll('""', '"') ?? plain ?? '', quoted: quoted !== undefined });
    if (end === ',') continue;
    if (!isBlankLine(record)) records.push(record);
    record = [];
  }
  return records;
}

const isBlankLine = (record: readonly Cell[]): boolean =>
  record.length === 1 && record[0]!.text === '' && !record[0]!.quoted;

function refuseDuplicates(names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new CliError(`the header names ${JSON.stringify(twice)} twice`);
}

function refuseRagged(columns: number, records: readonly (readonly Cell[])[]): void {
  const row = records.findIndex((record) => record.length !== columns);
  if (row < 0) return;
  throw new CliError(`row ${row + 1} has ${records[row]!.length} cells, the header ${columns}`);
}

/** Leading zeros and plus signs make codes, not numbers: 007 must not become 7. */
const integerText = /^-?(0|[1-9]\d{0,17})$/;
const numberText = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;
const booleanText = /^(true|false)$/i;

/** The narrowest type that reads every cell. CSV has no types of its own, so a mixed column is text. */
function inferCsvType(cells: readonly Cell[]): ColumnType {
  const present = cells.filter((cell) => !isNull(cell));
  const all = (pattern: RegExp): boolean => present.every(({ text, quoted }) => !quoted && pattern.test(text));
  if (present.length === 0) return { kind: 'utf8' };
  if (all(integerText)) return { kind: 'int64' };
  if (all(numberText)) return { kind: 'float64' };
  return { kind: all(booleanText) ? 'bool' : 'utf8' };
}

const isNull = ({ text, quoted }: Cell): boolean => text === '' && !quoted;

function readCell(cell: Cell, type: ColumnType, place: Place): unknown {
  if (isNull(cell)) return null;
  const value = readText(cell.text, type);
  if (value !== undefined) return value;
  throw new CliError(`${at(place)}: ${JSON.stringify(cell.text)} is not ${type.kind}`);
}

function readText(text: string, type: ColumnType): unknown {
  switch (type.kind) {
    case 'utf8':
      return text;
    case 'bool':
      return booleanText.test(text) ? text.toLowerCase() === 'true' : undefined;
    case 'int32':
      return /^-?\d+$/.test(text) ? Number(text) : undefined;
    case 'int64':
      return /^-?\d+$/.test(text) ? BigInt(text) : undefined;
    case 'float32':
    case 'float64':
      return text.trim() !== '' && !Number.isNaN(Number(text)) ? Number(text) : undefined;
    case 'list':
    case 'vector':
    case 'struct':
      return undefined;
  }
}
