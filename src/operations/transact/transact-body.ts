/** The body of a request of several operations has the parts that describe them, then the sources that they name. */
import { createHash } from 'node:crypto';
import type { ArrowSource } from '../../arrow/stream/source-reader.ts';
import type { BodyPart, UploadedParts } from '../../endpoint/body/multipart.ts';
import type { RouteInput } from '../../endpoint/route.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { type NamedOperation, readOperation, sourceOf } from './operation-kinds.ts';

export interface NamedSource {
  readonly name: string;
  readonly source: ArrowSource;
}

/** Each of them is a version of the shadow. */
const mostOperations = 100;

/** Describes operations first, then brings the sources that they name. */
export class TransactBody {
  readonly #parts: UploadedParts;
  readonly #isDigested: boolean;
  readonly #opened: NamedSource['source'][] = [];
  readonly #digests: (readonly [name: string, digest: string])[] = [];
  /** The part after the operations. */
  #next: BodyPart | undefined;

  /** `isDigested`: there will be a digest, which costs half a millisecond per megabyte. */
  constructor(parts: UploadedParts, isDigested: boolean) {
    this.#parts = parts;
    this.#isDigested = isDigested;
  }

  async operations(readers: Pick<RouteInput, 'readFilter' | 'checkNames'>): Promise<readonly NamedOperation[]> {
    const found: NamedOperation[] = [];
    this.#next = await this.#parts.next();
    while (this.#next !== undefined && isOperation(this.#next)) {
      const { name } = this.#next;
      if (found.some((other) => other.name === name)) throw namedTwice(name);
      if (found.length === mostOperations) throw invalidInput(`a request can have ${mostOperations} operations`);
      found.push(readOperation(name, await this.#parts.text(this.#next), readers));
      this.#next = await this.#parts.next();
    }
    if (found.length === 0) throw invalidInput('the body must begin with a part of JSON that describes an operation');
    requireOneUse(found);
    return found;
  }

  async *sources(operations: readonly NamedOperation[]): AsyncGenerator<NamedSource, void, void> {
    const wanted = new Set(operations.flatMap(({ does }) => sourceOf(does) ?? []));
    for (let part = this.#next; part !== undefined; part = await this.#parts.next()) {
      const { name } = part;
      if (isOperation(part)) throw invalidInput(`part ${name}: operations come before all sources`);
      if (this.#digests.some(([other]) => other === name)) throw namedTwice(name);
      if (!wanted.has(name)) throw invalidInput(`part ${name}: no operation names this source`);
      const hash = this.#isDigested ? createHash('sha256') : undefined;
      const bytes = hash === undefined ? part.bytes : hashed(part.bytes, hash);
      const source = this.#parts.source({ ...part, bytes });
      this.#opened.push(source);
      yield { name, source };
      for await (const _ of bytes);
      this.#digests.push([name, hash?.digest('hex') ?? '']);
    }
  }

  /**
   * Covers all sources by their names: a client makes another boundary each time. The operations are compared as what they
   * mean.
   */
  async digest(sources: AsyncIterable<NamedSource>): Promise<string> {
    for await (const _ of sources);
    const inOrder = this.#digests.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return createHash('sha256').update(JSON.stringify(inOrder)).digest('hex');
  }

  close(): void {
    for (const source of this.#opened) source.close();
    this.#parts.close();
  }
}

async function* hashed(bytes: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const piece of bytes) {
    hash.update(piece);
    yield piece;
  }
}

const arrowTypes: ReadonlySet<string> = new Set(['application/vnd.apache.arrow.stream', 'application/octet-stream']);

/** A part without a type of its own is a file, or a text. */
function isOperation({ name, type, fileName }: BodyPart): boolean {
  if (type === 'application/json') return true;
  if (type !== undefined && arrowTypes.has(type)) return false;
  if (type === undefined || type === 'text/plain') return fileName === undefined;
  throw invalidInput(
    `part ${name}: its content-type must be application/json for an operation, application/vnd.apache.arrow.stream for a source`,
  );
}

function requireOneUse(operations: readonly NamedOperation[]): void {
  const names = operations.map(({ name }) => name);
  const sources = operations.flatMap(({ does }) => sourceOf(does) ?? []);
  const twice = sources.find((name, index) => names.includes(name) || sources.indexOf(name) < index);
  if (twice === undefined) return;
  throw invalidInput(`source ${twice.slice(0, 64)}: a source has a name of its own, and one operation uses it`);
}

const namedTwice = (name: string): Error => invalidInput(`part ${name}: two parts have this name`);
