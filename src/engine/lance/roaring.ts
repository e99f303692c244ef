/** Containers of up to this many values are lists of 2 bytes each; larger ones are bitmaps. */
const maxListed = 4096;
const bitmapBytes = 8192;
const cookie = { plain: 12346, withRuns: 12347 } as const;
/** With runs, offsets are left out below this many containers. */
const minContainersWithOffsets = 4;

/**
 * How many bytes the Roaring bitmap at the start of `bytes` should have, by its own header; undefined if there is none
 * (https://github.com/RoaringBitmap/RoaringFormatSpec). Lance keeps many deleted rows of a fragment as such a bitmap, in a
 * file whose size no manifest tells.
 */
export function bytesOfBitmap(bytes: Buffer): number | undefined {
  try {
    return measure(bytes);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function measure(bytes: Buffer): number | undefined {
  const kind = bytes.readUInt16LE(0);
  if (kind === cookie.plain) return measurePlain(bytes, bytes.readUInt32LE(4));
  return kind === cookie.withRuns ? measureWithRuns(bytes, bytes.readUInt16LE(2) + 1) : undefined;
}

function measurePlain(bytes: Buffer, containers: number): number {
  const headersAt = 8;
  let end = headersAt + containers * 8;
  for (let index = 0; index < containers; index += 1) end += containerBytes(bytes, headersAt, index);
  return end;
}

function measureWithRuns(bytes: Buffer, containers: number): number {
  const runFlagsAt = 4;
  const headersAt = runFlagsAt + Math.ceil(containers / 8);
  let end = headersAt + containers * (containers >= minContainersWithOffsets ? 8 : 4);
  for (let index = 0; index < containers; index += 1) {
    const isRuns = (bytes.readUInt8(runFlagsAt + (index >> 3)) & (1 << (index & 7))) !== 0;
    end += isRuns ? 2 + bytes.readUInt16LE(end) * 4 : containerBytes(bytes, headersAt, index);
  }
  return end;
}

function containerBytes(bytes: Buffer, headersAt: number, index: number): number {
  const values = bytes.readUInt16LE(headersAt + index * 4 + 2) + 1;
  return values <= maxListed ? values * 2 : bitmapBytes;
}
