/** A table with a column of every common type, whose texts and bytes hold a mark that no error may show. */
import {
  Binary,
  Bool,
  type DataType,
  Date_,
  DateUnit,
  Decimal,
  Field,
  Float64,
  Int32,
  Int64,
  List,
  Struct,
  Table,
  TimestampMicrosecond,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';

/** In every cell of `v`, `s`, `bin` and `st.y`. */
const secretMark = 'SALARY98765';
const secretOf = (row: number): string => `${secretMark}-${row}`;
/** Of `pay`. */
const secretNumber = 987_650_000;

const rows = [...Array(20).keys()];
const column = (type: DataType, cellOf: (row: number) => unknown) => vectorFromArray(rows.map(cellOf), type);

export function sqlTableFile(): Buffer {
  const structFields = [new Field('x', new Int64(), true), new Field('y', new Utf8(), true)];
  const table = new Table({
    id: column(new Int64(), (row) => BigInt(row)),
    i: column(new Int32(), (row) => (row % 5 === 0 ? null : row)),
    pay: column(new Int64(), (row) => BigInt(secretNumber + row)),
    f: column(new Float64(), (row) => row / 2),
    v: column(new Utf8(), secretOf),
    s: column(new Utf8(), (row) => (row % 3 === 0 ? null : secretOf(row))),
    b: column(new Bool(), (row) => row % 2 === 0),
    d: column(new Date_(DateUnit.DAY), (row) => new Date(86_400_000 * row)),
    ts: column(new TimestampMicrosecond(), (row) => 1000 * row),
    dec: column(new Decimal(2, 10, 128), (row) => Uint32Array.of(row, 0, 0, 0)),
    bin: column(new Binary(), (row) => Buffer.from(secretOf(row))),
    a: column(new List(new Field('item', new Int64(), true)), (row) => [BigInt(row), 2n]),
    st: column(new Struct(structFields), (row) => ({ x: BigInt(row), y: secretOf(row) })),
  });
  return Buffer.from(tableToIPC(table, 'file'));
}

export const indexedColumns = ['id', 'v'] as const;

/** What the client wrote itself is no secret. */
export const showsSecret = (message: string, sql: string): boolean =>
  (/salary/i.test(message) && !/salary/i.test(sql)) || (/98765/.test(message) && !sql.includes('98765'));
