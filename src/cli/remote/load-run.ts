/** Loads files into a table of a service, part by part. */

import { appendFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import { readSchemaOfIpcFile } from '../../arrow/schema/read-schema.ts';
import { type Field, type Schema, typeName } from '../../arrow/schema/schema.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { type InputFile, openInput, readTwice } from '../../load/input-file.ts';
import { messagesOfFile } from '../../load/messages-of-file.ts';
import { PartKeys, partsOf, type RowsPart } from '../../load/parts.ts';
import { Progress } from '../../load/progress.ts';
import { untilAnswered } from '../../load/retries.ts';
import { streamOf } from '../../load/row-messages.ts';
import { type CliContext, CliError } from '../command.ts';
import type { PrintedRow } from './printed-rows.ts';
import { type ServiceClient, ServiceRefusal, ServiceSilent } from './service-client.ts';
import { tableRoute } from './table-commands.ts';

export type LoadMode =
  | { readonly kind: 'upsert'; readonly on: readonly string[] }
  | { readonly kind: 'append' | 'replace' };

export const inputOf = (file: string, { cwd, stdin }: CliContext): Promise<InputFile> =>
  openInput(file, file === '-' ? undefined : resolve(cwd, file), stdin).catch((cause: Error) => {
    throw new CliError(`${file} cannot be read: ${cause.message}`, { cause });
  });

export interface LoadParts {
  readonly table: string;
  readonly files: readonly string[];
  readonly mode: LoadMode;
  /** Of columns of a table that is new, or replaced. */
  readonly types: readonly Field[] | undefined;
  /** Makes other keys. */
  readonly label: string | undefined;
  /** Gets a line of JSON for each row that cannot be read, and the load goes on; undefined ends it at the first. */
  readonly refusedFile: string | undefined;
  readonly service: ServiceClient;
  readonly context: CliContext;
}

const arrowStream = 'application/vnd.apache.arrow.stream';

/** Of a part. */
interface Loaded {
  readonly num_inserted_rows?: number;
  readonly num_updated_rows?: number;
}

export class Load {
  readonly #parts: LoadParts;
  readonly #sum = { rows: 0, refused: 0, inserted: 0, updated: 0, parts: 0, partsThereBefore: 0 };
  readonly #leftOut: string[] | undefined;
  /** The standard input, of which the first rows were looked at. */
  #pipe: InputFile | undefined;

  constructor(parts: LoadParts) {
    this.#parts = parts;
    this.#leftOut = parts.refusedFile === undefined ? undefined : [];
  }

  /** Throws `CliError` or `LancegateError` for what stopped it. */
  async run(): Promise<PrintedRow & { readonly parts: number; readonly partsThereBefore: number }> {
    const { table, mode, refusedFile } = this.#parts;
    if (refusedFile !== undefined) await writeFile(refusedFile, '');
    if (mode.kind === 'replace') await this.#replace();
    else await this.#addParts(mode);
    return { table, ...this.#sum };
  }

  async #addParts(mode: Exclude<LoadMode, { readonly kind: 'replace' }>): Promise<void> {
    const { table, files, types, label, context } = this.#parts;
    const schema = (await this.#schema()) ?? (await this.#make());
    requireTypes(schema, types);
    const { location } = await this.#ask((service) =>
      service.json<DescribedPlace>(tableRoute(table, 'describe'), { body: {} }),
    );
    const on = mode.kind === 'upsert' ? mode.on : [];
    // A table that was dropped and made again is at another location, and has nothing of what was loaded before.
    const keys = new PartKeys([table, location, mode.kind, ...on, label]);
    const query = on.map((column) => `on=${encodeURIComponent(column)}`).join('&');
    const route = mode.kind === 'upsert' ? tableRoute(table, `merge_insert?${query}`) : tableRoute(table, 'insert');
    for (const file of files) {
      await using input = (file === '-' && this.#pipe) || (await inputOf(file, context));
      const progress = new Progress(context.stderr, context.clock, input.totalBytes);
      const messages = messagesOfFile(input, { table: schema, leftOut: this.#leftOut });
      try {
        for await (const part of readAhead(partsOf(messages))) {
          await this.#send(route, part, keys.next(part), file);
          await this.#keepRefused(file);
          progress.show({ bytes: bytesOf(input, part), rows: this.#sum.rows });
        }
      } finally {
        progress.end();
        await this.#keepRefused(file);
      }
    }
  }

  /** A line for each row that was left out since the last time. */
  async #keepRefused(file: string): Promise<void> {
    const { refusedFile } = this.#parts;
    const reasons = this.#leftOut?.splice(0) ?? [];
    if (refusedFile === undefined || reasons.length === 0) return;
    this.#sum.refused += reasons.length;
    await appendFile(refusedFile, reasons.map((reason) => `${JSON.stringify({ file, reason })}\n`).join(''));
  }

  async #send(route: string, part: RowsPart, key: string, file: string): Promise<void> {
    const content = { type: arrowStream, bytes: part.body };
    const attempt = async (service: ServiceClient) => {
      const response = await service.ask(route, { content, headers: { 'idempotency-key': key } });
      const isReplay = response.headers.get('idempotency-replayed') === 'true';
      const answer = await response.json().catch((cause: unknown) => {
        throw new ServiceSilent('the answer of the service broke off', { cause });
      });
      return { isReplay, answer: answer as Loaded };
    };
    const place = `${file}, rows ${part.rowsBefore + 1} to ${part.rowsBefore + part.rows}`;
    const { isReplay, answer } = await this.#ask(attempt).catch((error) => {
      throw stopped(error, place);
    });
    this.#sum.rows += part.rows;
    this.#sum.inserted += answer.num_inserted_rows ?? 0;
    this.#sum.updated += answer.num_updated_rows ?? 0;
    this.#sum.parts += 1;
    if (isReplay) this.#sum.partsThereBefore += 1;
  }

  #ask<Answer>(attempt: (service: ServiceClient) => Promise<Answer>): Promise<Answer> {
    const { service, context } = this.#parts;
    return untilAnswered(() => attempt(service), { clock: context.clock, pause, mayPass });
  }

  /** undefined where there is no table. */
  async #schema(): Promise<Schema | undefined> {
    const route = tableRoute(this.#parts.table, 'query');
    const asked = { body: { filter: '1 = 0', k: 1 }, accept: 'application/vnd.apache.arrow.file' };
    try {
      const bytes = await this.#ask(async (service) => (await service.ask(route, asked)).arrayBuffer());
      return readSchemaOfIpcFile(Buffer.from(bytes) as IpcFile);
    } catch (error) {
      if (error instanceof ServiceRefusal && error.status === 404) return undefined;
      throw error;
    }
  }

  /** A table without rows, of the columns of the first file. */
  async #make(): Promise<Schema | undefined> {
    const { table, files, types, context } = this.#parts;
    const opened = await inputOf(files[0]!, context);
    const { first, second } = files[0] === '-' ? readTwice(opened) : { first: opened, second: undefined };
    this.#pipe = second;
    await using _closed = second === undefined ? opened : undefined;
    for await (const { bytes } of messagesOfFile(first, { types, leftOut: this.#leftOut })) {
      const content = { type: arrowStream, bytes: streamOf([bytes]) as Buffer<ArrayBuffer> };
      const headers = { 'idempotency-key': `load-create-${context.clock.nowMs()}-${process.pid}` };
      await this.#ask((service) => service.ask(tableRoute(table, 'create'), { content, headers }));
      break;
    }
    this.#leftOut?.splice(0); // the rows are read again
    return await this.#schema();
  }

  /** One request, whatever the size: the service shows its rows once it has all. */
  async #replace(): Promise<void> {
    const { table, service } = this.#parts;
    const isThere = (await this.#schema()) !== undefined;
    const route = tableRoute(table, isThere ? 'insert?mode=overwrite' : 'create');
    let fault: unknown;
    const bytes = noting(this.#wholeStream(), (error) => {
      fault = error;
    });
    await service.ask(route, { content: { type: arrowStream, bytes } }).catch((error) => {
      throw fault ?? error; // a request whose body breaks looks like a service that is away
    });
    this.#sum.inserted = this.#sum.rows;
    this.#sum.parts = 1;
  }

  async *#wholeStream(): AsyncGenerator<Uint8Array> {
    const { files, types, context } = this.#parts;
    let schema: Uint8Array | undefined;
    for (const file of files) {
      await using input = await inputOf(file, context);
      const progress = new Progress(context.stderr, context.clock, input.totalBytes);
      using _line = { [Symbol.dispose]: () => progress.end() };
      for await (const { kind, rows, ...read } of messagesOfFile(input, { types, leftOut: this.#leftOut })) {
        const bytes = Buffer.from(read.bytes); // it leaves later than the next one comes
        const isOther = kind === 'schema' && schema !== undefined && !Buffer.from(schema).equals(bytes);
        if (isOther) throw new CliError(`${file} has other columns than ${files[0]}`);
        if (kind === 'schema' && schema !== undefined) continue;
        schema ??= bytes;
        yield bytes;
        this.#sum.rows += rows;
        progress.show({ bytes: bytesOf(input, read), rows: this.#sum.rows });
      }
      await this.#keepRefused(file);
    }
    yield streamOf([]);
  }
}

async function* noting<Item>(items: AsyncIterable<Item>, failed: (error: unknown) => void): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    failed(error);
    throw error;
  }
}

const bytesOf = (
  { totalBytes, bytesRead }: InputFile,
  { readShare }: { readonly readShare?: number | undefined },
): number => (readShare === undefined || totalBytes === undefined ? bytesRead : readShare * totalBytes);

/** Busy, restarting or out of reach. The key makes it safe to ask again. */
function mayPass(error: unknown): number | undefined {
  if (error instanceof ServiceSilent) return 0;
  if (!(error instanceof ServiceRefusal)) return undefined;
  return [429, 502, 503, 504].includes(error.status) ? (error.retryAfterMs ?? 0) : undefined;
}

function stopped(error: unknown, place: string): unknown {
  if (!(error instanceof CliError || error instanceof LancegateError)) return error;
  const next =
    error instanceof ServiceRefusal && error.status === 500
      ? 'whether these rows are loaded is not known; look, and then --run with another word loads the file from its beginning'
      : 'what was before is loaded, and the same command goes on here';
  return new CliError(`${place}: ${error.message}; ${next}`, { cause: error });
}

interface DescribedPlace {
  readonly location: string;
}

/** A second run of the command finds the table that the first one made. */
function requireTypes(table: Schema | undefined, types: readonly Field[] | undefined): void {
  for (const given of types ?? []) {
    const field = table?.fields.find(({ name }) => name === given.name);
    if (field === undefined || typeName(field) === typeName(given)) continue;
    throw new CliError(`--types: column ${given.name} of the table, which is there, is ${typeName(field)}`);
  }
}

/** Asks for the next item before the current one is used up. */
async function* readAhead<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  const iterator = items[Symbol.asyncIterator]();
  let next = iterator.next();
  try {
    for (;;) {
      const { done, value } = await next;
      if (done) return;
      next = iterator.next();
      next.catch(() => undefined); // it is thrown where it is awaited
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}
