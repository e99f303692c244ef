/**
 * A decoder of LZ4 frames that writes exactly the declared number of bytes or fails: what a client declares is a hard
 * limit, so no frame can grow beyond it. Knows linked and independent blocks, stored blocks, skippable frames, several
 * frames in a row and every checksum flag. Checksums are skipped, not verified: the engine verifies them when it reads
 * the same bytes. Frames with a dictionary are refused. Throws `InvalidInput`.
 */
import { invalidInput } from '../../kernel/errors.ts';

const frameMagic = 0x184d2204;
const skippableMagic = 0x184d2a50;
const storedBlock = 0x8000_0000;
const checksumBytes = 4;
/** Shorter copies are faster byte by byte than through a typed array's method. */
const shortCopy = 32;

const malformed = (why: string) => invalidInput(`malformed LZ4 frame: ${why}`);

class FrameDecoder {
  readonly #input: Uint8Array;
  readonly #view: DataView;
  readonly #output: Uint8Array;
  #in = 0;
  #out = 0;

  constructor(input: Uint8Array, size: number) {
    this.#input = input;
    this.#view = new DataView(input.buffer, input.byteOffset, input.byteLength);
    this.#output = new Uint8Array(size);
  }

  decode(isBlock: boolean): Uint8Array {
    if (isBlock) this.#sequences(this.#input.length, 0);
    else while (this.#in < this.#input.length) this.#frame();
    if (this.#out !== this.#output.length)
      throw malformed(`${this.#out} bytes where ${this.#output.length} are declared`);
    return this.#output;
  }

  #frame(): void {
    this.#need(8);
    const magic = this.#view.getUint32(this.#in, true);
    if ((magic & 0xffff_fff0) === skippableMagic) {
      this.#in += 8 + this.#view.getUint32(this.#in + 4, true);
      return;
    }
    if (magic !== frameMagic) throw malformed('it does not begin as one');
    const flags = this.#view.getUint8(this.#in + 4);
    if (flags >> 6 !== 1) throw malformed('unknown version');
    if ((flags & 0x01) !== 0) throw malformed('it needs a dictionary');
    const areIndependent = (flags & 0x20) !== 0;
    const haveChecksums = (flags & 0x10) !== 0;
    // These are magic, flags, block size and header checksum; the content size is optional.
    this.#in += 7 + ((flags & 0x08) !== 0 ? 8 : 0);
    const frameStart = this.#out;
    while (this.#block(areIndependent ? undefined : frameStart)) if (haveChecksums) this.#skip(checksumBytes);
    if ((flags & 0x04) !== 0) this.#skip(checksumBytes);
  }

  /** Answers false at the end mark. A block with no `floor` stands for itself. */
  #block(floor: number | undefined): boolean {
    this.#need(4);
    const word = this.#view.getUint32(this.#in, true);
    this.#in += 4;
    if (word === 0) return false;
    const length = word & ~storedBlock;
    this.#need(length);
    const end = this.#in + length;
    if (word >= storedBlock) this.#literals(length);
    else this.#sequences(end, floor ?? this.#out);
    return true;
  }

  /** Matches may reach back to `floor`, not further. */
  #sequences(end: number, floor: number): void {
    while (this.#in < end) {
      const token = this.#input[this.#in++]!;
      const literals = this.#length(token >> 4, end);
      if (this.#in + literals > end) throw malformed('literals lie outside their block');
      this.#literals(literals);
      // The last sequence of a block has no match.
      if (this.#in === end) return;
      if (this.#in + 2 > end) throw malformed('a match is cut off');
      const distance = this.#input[this.#in]! | (this.#input[this.#in + 1]! << 8);
      this.#in += 2;
      this.#match(distance, this.#length(token & 15, end) + 4, floor);
    }
  }

  #length(nibble: number, end: number): number {
    if (nibble !== 15) return nibble;
    let length = nibble;
    for (;;) {
      if (this.#in >= end) throw malformed('a length is cut off');
      const byte = this.#input[this.#in++]!;
      length += byte;
      if (byte !== 255) return length;
    }
  }

  #literals(length: number): void {
    const start = this.#in;
    this.#room(length);
    if (length > shortCopy) this.#output.set(this.#input.subarray(start, start + length), this.#out);
    else for (let i = 0; i < length; i++) this.#output[this.#out + i] = this.#input[start + i]!;
    this.#in += length;
    this.#out += length;
  }

  #match(distance: number, length: number, floor: number): void {
    const from = this.#out - distance;
    if (distance === 0 || from < floor) throw malformed('a match reaches back too far');
    this.#room(length);
    const output = this.#output;
    if (length > shortCopy && distance >= length) output.copyWithin(this.#out, from, from + length);
    else for (let i = 0; i < length; i++) output[this.#out + i] = output[from + i]!;
    this.#out += length;
  }

  #need(bytes: number): void {
    if (this.#in + bytes > this.#input.length) throw malformed('it is cut off');
  }

  #skip(bytes: number): void {
    this.#need(bytes);
    this.#in += bytes;
  }

  #room(bytes: number): void {
    if (this.#out + bytes > this.#output.length) throw malformed('it is larger than declared');
  }
}

/** `size` comes from the stream; the caller has checked it against a budget. */
export const decodeLz4Frame = (input: Uint8Array, size: number): Uint8Array =>
  new FrameDecoder(input, size).decode(false);

/** Parquet has blocks without a frame. */
export const decodeLz4Block = (input: Uint8Array, size: number): Uint8Array =>
  new FrameDecoder(input, size).decode(true);
