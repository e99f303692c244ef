/** `Content-Encoding` of a body: none, gzip or zstd. The limits of whoever reads count the bytes that come out. */
import { Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGunzip, createZstdDecompress } from 'node:zlib';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';

const chunkSize = 64 * 1024;

/** RFC 9659: a zstd content coding needs a window of at most 8 MiB, so that no body makes us reserve more. */
const zstdWindowLog = 23;

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: () => createGunzip({ chunkSize }),
  'x-gzip': () => createGunzip({ chunkSize }),
  zstd: () => createZstdDecompress({ chunkSize, params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLog } }),
};

/** What a decoder holds at the most: its window, and its chunks in and out. */
export function decoderBytes(header: string | undefined): number {
  const coding = codingOf(header);
  if (coding === '') return 0;
  return (coding === 'zstd' ? 2 ** zstdWindowLog : 0) + 4 * chunkSize;
}

/** `atEnd` is told what gives the decoder's memory back; nobody reads it then. */
export type Decode = (body: AsyncIterable<Uint8Array>, atEnd: (run: () => void) => void) => AsyncIterable<Uint8Array>;

/** `InvalidInput` for any other encoding, before a byte is read. */
export function contentDecoder(header: string | undefined): Decode {
  const coding = codingOf(header);
  if (coding === '') return (body) => body;
  const create = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  if (create === undefined) throw invalidInput('content-encoding: only gzip and zstd are understood, one at a time');
  return (body, atEnd) => decoded(pipe(body, create(), atEnd), coding);
}

/** Empty where the body comes as it is. */
function codingOf(header: string | undefined): string {
  const coding = header?.trim().toLowerCase() ?? '';
  return coding === 'identity' ? '' : coding;
}

/** Pulls no more of `body` than the decoder has room for. */
function pipe(body: AsyncIterable<Uint8Array>, decoder: Transform, atEnd: (run: () => void) => void): Transform {
  const end = new AbortController();
  atEnd(() => end.abort());
  const feeding = pipeline(Readable.from(body, { objectMode: false }), decoder, { signal: end.signal });
  feeding.catch(() => undefined); // compensated: the decoder is destroyed with the same error, and throws it
  return decoder;
}

async function* decoded(decoder: Transform, coding: string): AsyncGenerator<Uint8Array, void, void> {
  try {
    for await (const chunk of decoder) yield chunk as Uint8Array;
  } catch (error) {
    if (error instanceof LancegateError) throw error;
    throw invalidInput(`the body is not valid ${coding}`, error);
  }
}
