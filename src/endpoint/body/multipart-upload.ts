import type { ArrowSource } from '../../arrow/stream/source-reader.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { BodyAccount } from '../../memory/body-memory.ts';
import { type BodyPart, Multipart } from './multipart.ts';
import { readText } from './read-text.ts';

/** A body has parts, which arrive one after the other. Each is read as text or as a source before the next one is asked for. */
export interface UploadedParts {
  next(): Promise<BodyPart | undefined>;
  /** `BodyTooLarge` beyond the limit of JSON bodies, for all texts together. */
  text(part: BodyPart): Promise<string>;
  source(part: BodyPart): ArrowSource;
  /** Releases what the texts take. */
  close(): void;
}

interface MultipartUploadParts {
  readonly boundary: string;
  /** The whole body may have so many. */
  readonly maxBytes: number;
  /** All texts together may have so many. */
  readonly maxTextBytes: number;
  readonly account: BodyAccount;
  /** Opens a source on the account. */
  readonly open: (bytes: AsyncIterable<Uint8Array>, maxBytes: number) => ArrowSource;
  /** See `LargeTexts`. */
  readonly turnOf: (text: string) => Promise<string>;
}

/** All parts of one multipart body count on its account. */
export class MultipartUpload implements UploadedParts {
  readonly #body: Multipart;
  readonly #parts: MultipartUploadParts;
  #textBytes = 0;

  constructor(bytes: AsyncIterable<Uint8Array>, parts: MultipartUploadParts) {
    this.#body = new Multipart(bytes, parts.boundary, parts.maxBytes);
    this.#parts = parts;
  }

  next(): Promise<BodyPart | undefined> {
    return this.#body.next();
  }

  async text({ bytes }: BodyPart): Promise<string> {
    return this.#parts.turnOf(await readText(this.#charged(bytes), this.#parts.maxBytes));
  }

  source({ bytes }: BodyPart): ArrowSource {
    return this.#parts.open(bytes, this.#parts.maxBytes);
  }

  close(): void {
    this.#parts.account.discharge(this.#textBytes);
    this.#textBytes = 0;
  }

  async *#charged(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
    const { account, maxTextBytes } = this.#parts;
    for await (const piece of bytes) {
      if (this.#textBytes + piece.length > maxTextBytes)
        throw new LancegateError('BodyTooLarge', `the JSON of the body has more than ${maxTextBytes} bytes`);
      account.charge(piece.length);
      this.#textBytes += piece.length;
      yield piece;
    }
  }
}
