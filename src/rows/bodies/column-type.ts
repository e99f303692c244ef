/** Reads types of columns as a person writes them: `int64`, `utf8`, `float32[384]`. */
import type { DataType, Field } from '../../arrow/schema/schema.ts';

const scalars: Readonly<Record<string, DataType>> = {
  bool: { kind: 'bool' },
  int32: { kind: 'int', bitWidth: 32, signed: true },
  int64: { kind: 'int', bitWidth: 64, signed: true },
  float32: { kind: 'float', bitWidth: 32 },
  float64: { kind: 'float', bitWidth: 64 },
  utf8: { kind: 'utf8' },
  binary: { kind: 'binary' },
  date32: { kind: 'date', unit: 'day' },
  timestamp: { kind: 'timestamp', unit: 'us', timezone: 'UTC' },
};

export const columnTypeNames = [...Object.keys(scalars), 'float32[LENGTH]'];

/** Answers undefined where there is no such type. */
export function columnOfType(name: string, type: string): Field | undefined {
  const plain = (of: DataType, children: readonly Field[] = []): Field => ({
    name,
    nullable: true,
    type: of,
    dictionary: undefined,
    children,
    metadata: new Map(),
  });
  const length = /^float32\[([1-9]\d{0,5})\]$/.exec(type)?.[1];
  if (length !== undefined) {
    const item = { ...plain({ kind: 'float', bitWidth: 32 }), name: 'item' };
    return plain({ kind: 'fixed_size_list', listSize: Number(length) }, [item]);
  }
  const scalar = Object.hasOwn(scalars, type) ? scalars[type] : undefined;
  return scalar && plain(scalar);
}
