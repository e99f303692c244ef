/** Makes all NaNs of a float column the same bytes, so that comparing bytes compares keys. */
import type { KeyColumn } from './read-key-column.ts';

function normalise(bytes: Uint8Array, bitWidth: 16 | 32 | 64): void {
  const floats = {
    16: () => new Float16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2),
    32: () => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4),
    64: () => new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8),
  }[bitWidth]();
  for (let i = 0; i < floats.length; i++) if (Number.isNaN(floats[i])) floats[i] = Number.NaN;
}

export function normaliseNaNs(column: KeyColumn): KeyColumn {
  const { field, values } = column;
  if (field.type.kind !== 'float' || values.form !== 'fixed') return column;
  // The bytes may be the client's own, which the engine is yet to read.
  const bytes = Uint8Array.from(values.bytes);
  normalise(bytes, field.type.bitWidth);
  return { ...column, values: { ...values, bytes } };
}
