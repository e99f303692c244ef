/**
 * Reads a multipart body (RFC 7578), part by part as it arrives. It is strict, since it stands in front of everything else that
 * reads the body: what is not exactly a body that clients make is refused, and no part is passed over. Nothing is read ahead of
 * the part that a reader asks for, and no more than a few lines are kept.
 */
import type { ArrowSource } from '../../arrow/stream/source-reader.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BodyAccount } from '../../memory/body-memory.ts';
import { bodyTooLarge, readText } from './decoded-body.ts';

export interface BodyPart {
  readonly name: string;
  readonly fileName: string | undefined;
  /** It is in lower case, without parameters. */
  readonly type: string | undefined;
  /** To be read once, before the next part is asked for. A piece is done with when the next one is asked for. */
  readonly bytes: AsyncIterable<Uint8Array>;
}

/** The limit for all header lines of one part together. */
const mostHeaderBytes = 4 << 10;
const endOfHeaders = Buffer.from('\r\n\r\n');
const lineEnd = Buffer.from('\r\n');
const dashes = Buffer.from('--');

export class Multipart {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #maxBytes: number;
  readonly #delimiter: Buffer;
  #pending: Buffer = Buffer.alloc(0);
  #received = 0;
  #parts = 0;
  #isInPart = false;
  #isEnded = false;

  /** The whole body may have `maxBytes`. See `boundaryOf` for `boundary`. */
  constructor(body: AsyncIterable<Uint8Array>, boundary: string, maxBytes: number) {
    this.#chunks = body[Symbol.asyncIterator]();
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
    this.#maxBytes = maxBytes;
  }

  /** undefined at the end of the body. What was not read of the part before is dropped. */
  async next(): Promise<BodyPart | undefined> {
    if (this.#parts === 0 && !this.#isEnded) await this.#begin();
    for await (const _ of this.#content());
    if (this.#isEnded || (await this.#isLast())) return undefined;
    this.#parts += 1;
    const head = await this.#headers();
    this.#isInPart = true;
    return { ...this.#named(() => readHead(head)), bytes: this.#content() };
  }

  /** The first delimiter is the beginning of the body. */
  async #begin(): Promise<void> {
    const first = this.#delimiter.subarray(lineEnd.length);
    while (this.#pending.length < first.length && (await this.#pull()));
    if (!this.#pending.subarray(0, first.length).equals(first)) {
      throw invalidInput('the body does not begin with the boundary that content-type names');
    }
    this.#pending = this.#pending.subarray(first.length);
  }

  /** After a delimiter: two dashes end the body, a line end begins a part. */
  async #isLast(): Promise<boolean> {
    await this.#require(2, 'after a boundary');
    const next = this.#pending.subarray(0, 2);
    this.#pending = this.#pending.subarray(2);
    if (next.equals(lineEnd)) return false;
    if (!next.equals(dashes))
      throw invalidInput('the body has a boundary that neither begins a part nor ends the body');
    this.#isEnded = true;
    while (this.#pending.length <= lineEnd.length && (await this.#pull()));
    const rest = this.#pending;
    if (rest.length > 0 && !rest.equals(lineEnd)) throw invalidInput('bytes follow the last boundary of the body');
    return true;
  }

  async #headers(): Promise<Buffer> {
    for (;;) {
      const end = this.#pending.indexOf(endOfHeaders);
      if ((end === -1 ? this.#pending.length : end) > mostHeaderBytes) {
        throw invalidInput(`part ${this.#parts}: its headers have more than ${mostHeaderBytes} bytes`);
      }
      if (end === -1) {
        await this.#require(this.#pending.length + 1, `within the headers of part ${this.#parts}`);
        continue;
      }
      const head = this.#pending.subarray(0, end);
      this.#pending = this.#pending.subarray(end + endOfHeaders.length);
      return head;
    }
  }

  async *#content(): AsyncGenerator<Uint8Array, void, void> {
    while (this.#isInPart) {
      const at = this.#pending.indexOf(this.#delimiter);
      const end = at === -1 ? Math.max(0, this.#pending.length - this.#delimiter.length + 1) : at;
      const piece = this.#pending.subarray(0, end);
      this.#pending = this.#pending.subarray(at === -1 ? end : end + this.#delimiter.length);
      if (at !== -1) this.#isInPart = false;
      if (piece.length > 0) yield piece;
      if (at === -1) await this.#require(this.#pending.length + 1, `within part ${this.#parts}`);
    }
  }

  async #require(bytes: number, where: string): Promise<void> {
    while (this.#pending.length < bytes) {
      if (!(await this.#pull())) throw invalidInput(`the body ends ${where}`);
    }
  }

  /** False at the end of the body. The bytes are copied: a chunk is freed once the next one is asked for. */
  async #pull(): Promise<boolean> {
    const next = await this.#chunks.next();
    if (next.done === true) return false;
    this.#received += next.value.length;
    if (this.#received > this.#maxBytes) throw bodyTooLarge(this.#maxBytes);
    this.#pending = Buffer.concat([this.#pending, next.value]);
    return true;
  }

  #named<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (error) {
      throw error instanceof LancegateError ? invalidInput(`part ${this.#parts}: ${error.message}`) : error;
    }
  }
}

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
  /** The limit of the whole body. */
  readonly maxBytes: number;
  /** The limit of all texts together. */
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

/** RFC 2046, 5.1.1 says what a boundary is. */
const boundaryParameter =
  /;\s*boundary=(?:"([\w'()+,./:=? -]{0,69}[\w'()+,./:=?-])"|([\w'()+,./:=?-]{1,70}))\s*(?:;|$)/i;

export const isMultipart = (contentType: string | undefined): boolean =>
  /^multipart\/form-data\s*(?:;|$)/i.test(contentType ?? '');

/** Throws `InvalidInput` where the body is none of named parts. */
export function boundaryOf(contentType: string | undefined): string {
  if (!isMultipart(contentType)) {
    throw invalidInput('content-type: the body must be multipart/form-data');
  }
  const [, quoted, plain] = boundaryParameter.exec(contentType ?? '') ?? [];
  const boundary = quoted ?? plain;
  if (boundary !== undefined) return boundary;
  throw invalidInput('content-type: the boundary is missing or malformed');
}

type PartHead = Omit<BodyPart, 'bytes'>;

const mostHeaders = 16;
const control = /(?!\t)\p{Cc}/u;
const headerLine = /^([\w-]+):[ \t]*(.*)$/;
const disposition = /^form-data((?:\s*;\s*[\w*-]+=(?:"(?:[^"\\]|\\.)*"|[^\s;"]+))*)\s*$/i;
const parameter = /;\s*([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/g;

function readHead(bytes: Buffer): PartHead {
  const lines = bytes.toString('utf8').split('\r\n');
  if (lines.length > mostHeaders) throw invalidInput(`it has more than ${mostHeaders} headers`);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = headerLine.exec(line) ?? [];
    if (name === undefined || value === undefined || control.test(line)) throw invalidInput('a header is malformed');
    if (headers.has(name.toLowerCase())) throw invalidInput(`it has several headers ${name.toLowerCase()}`);
    headers.set(name.toLowerCase(), value.trim());
  }
  if (!/^(?:binary|[78]bit)$/i.test(headers.get('content-transfer-encoding') ?? 'binary')) {
    throw invalidInput('content-transfer-encoding: a part must be sent as it is');
  }
  const type = headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase();
  return { ...readDisposition(headers.get('content-disposition')), type };
}

/** Names are shown in answers and errors, and other parts refer to them. */
const plainName = /^[\w.-]{1,64}$/;

function readDisposition(text: string | undefined): Pick<BodyPart, 'name' | 'fileName'> {
  const [, parameters] = disposition.exec(text ?? '') ?? [];
  if (parameters === undefined) throw invalidInput('content-disposition must be form-data with a name');
  const found = [...parameters.matchAll(parameter)].map(
    ([, name = '', quoted, token]) => [name.toLowerCase(), quoted ?? token ?? ''] as const,
  );
  const values = new Map(found);
  if (values.size < found.length) throw invalidInput('content-disposition says something twice');
  const name = values.get('name');
  if (name === undefined || !plainName.test(name)) {
    throw invalidInput('its name must be 1 to 64 letters, digits, dots, dashes and underscores');
  }
  return { name, fileName: values.get('filename') ?? values.get('filename*') };
}
