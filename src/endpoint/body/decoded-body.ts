/** Takes the `Content-Encoding` off a body as the bytes come, and reads a body as text. */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGunzip, createZstdDecompress, type Gunzip, type ZstdDecompress } from 'node:zlib';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';

const chunkSize = 64 * 1024;

/** RFC 9659: a zstd content coding needs a window of at most 8 MiB, so that no body makes the service reserve more. */
const zstdWindowLog = 23;

type Decoder = Gunzip | ZstdDecompress;

const decoders: Readonly<Record<string, () => Decoder>> = {
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

/** `atEnd` gets the function that gives the decoder's memory back, for when no reader is left. */
type Decode = (body: AsyncIterable<Uint8Array>, atEnd: (run: () => void) => void) => AsyncIterable<Uint8Array>;

/**
 * A body may have no `Content-Encoding`, or gzip or zstd. The limits of a reader count the decoded bytes. `InvalidInput` for
 * any other encoding, before a byte is read.
 */
export function contentDecoder(header: string | undefined): Decode {
  const coding = codingOf(header);
  if (coding === '') return (body) => body;
  const create = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  if (create === undefined) throw invalidInput('content-encoding: only gzip and zstd are understood, one at a time');
  return (body, atEnd) => decoded(new CodedBody(body), create(), coding, atEnd);
}

/** It is empty where the body is not encoded. */
function codingOf(header: string | undefined): string {
  const coding = header?.trim().toLowerCase() ?? '';
  return coding === 'identity' ? '' : coding;
}

/** Knows what of a coded body has gone to the decoder. */
class CodedBody {
  readonly #body: AsyncIterable<Uint8Array>;
  #bytes = 0;
  #isRead = false;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = body;
  }

  async *read(): AsyncGenerator<Uint8Array, void, void> {
    for await (const chunk of this.#body) {
      this.#bytes += chunk.length;
      yield chunk;
    }
    this.#isRead = true;
  }

  isUsedUpBy({ bytesWritten }: Decoder): boolean {
    return this.#isRead && bytesWritten === this.#bytes;
  }
}

/** Pulls no more of `body` than the decoder has room for. */
function pipe(body: CodedBody, decoder: Decoder, atEnd: (run: () => void) => void): void {
  const end = new AbortController();
  atEnd(() => end.abort());
  const feeding = pipeline(Readable.from(body.read(), { objectMode: false }), decoder, { signal: end.signal });
  feeding.catch(() => undefined); // compensated: the decoder is destroyed with the same error, and throws it
}

/**
 * A decoder ends where its coding does, which may be before the body: with a zero after a gzip member, or anything after a zstd frame.
 * What follows would be lost, and the request carried out although its client may not have sent the whole of it (P1, P6).
 */
async function* decoded(
  body: CodedBody,
  decoder: Decoder,
  coding: string,
  atEnd: (run: () => void) => void,
): AsyncGenerator<Uint8Array, void, void> {
  pipe(body, decoder, atEnd);
  try {
    for await (const chunk of decoder) yield chunk as Uint8Array;
  } catch (error) {
    if (error instanceof LancegateError) throw error;
    throw invalidInput(`the body is not valid ${coding}`, error);
  }
  if (body.isUsedUpBy(decoder)) return;
  throw invalidInput(`bytes follow where the ${coding} of the body ends: send it as one stream`);
}

/** Returns the whole body as text. `BodyTooLarge` as soon as it is beyond the limit, `InvalidInput` where it is not UTF-8. */
export async function readText(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
    chunks.push(chunk);
  }
  return decodeUtf8(Buffer.concat(chunks));
}

export const bodyTooLarge = (maxBytes: number): LancegateError =>
  new LancegateError('BodyTooLarge', `the body is larger than the ${maxBytes} bytes that this service accepts`);

function decodeUtf8(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw invalidInput('the body is not UTF-8', error);
  }
}
