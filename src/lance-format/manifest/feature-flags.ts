/**
 * Bits of `reader_feature_flags` and `writer_feature_flags` that the engine (@lancedb/lancedb 0.39.0) accepts, as tests with
 * each bit showed: deletion files, row identifiers, the old format, a table configuration, base paths, no transaction files,
 * and two more. It refuses all others.
 */
const knownToEngine = 1n | 2n | 4n | 8n | 16n | 32n | 128n | 256n;

export const areKnownToEngine = (flags: bigint): boolean => (flags & ~knownToEngine) === 0n;

/** The unknown ones. */
export function showFlags(flags: bigint): string {
  const unknown = flags & ~knownToEngine;
  const bits = Array.from({ length: 64 }, (_, bit) => 1n << BigInt(bit));
  return bits.filter((bit) => (unknown & bit) !== 0n).join(', ');
}
