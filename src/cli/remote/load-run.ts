/** Loads files into a table of a service, part by part. */

import { appendFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import { readSchemaOfIpcFile } from '../../arrow/schema/read-schema.ts';
import { type Field, type Schema, typeName } from '../../arrow/schema/schema.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { Some } from '../../kernel/some.ts';
import { freeMemory } from '../../load/free-memory.ts';
import { type InputFile, openInput, type SaidOfFile } from '../../load/input-file.ts';
import type { KnownColumns } from '../../load/messages-by-format.ts';
import { messagesOfFile } from '../../load/messages-of-file.ts';
import { PartKeys, partsOf, type RowsPart } from '../../load/parts.ts';
import { Progress } from '../../load/progress.ts';
import { schemaOfMessage, streamOf } from '../../load/row-messages.ts';
import { arrowFileType, arrowStreamType } from '../../rows/answer-form.ts';
import type { RuleTexts } from '../../table/standing-rules.ts';
import { type CliContext, CliError, fileFault } from '../command.ts';
import type { PrintedRow } from './printed-rows.ts';
import { type ServiceClient, ServiceRefusal, ServiceSilent } from './service-client.ts';
import { tableRoute } from './table-commands.ts';
import { untilAnswered } from './until-answered.ts';

export type LoadMode =
  | { readonly kind: 'upsert' | 'append'; readonly on: readonly string[]; readonly rules: RuleTexts }
  | { readonly kind: 'replace' };

export const inputOf = (
  name: string,
  said: SaidOfFile & { readonly isReadTwice?: boolean },
  { cwd, stdin }: CliContext,
): Promise<InputFile> =>
  openInput({ name, path: name === '-' ? undefined : resolve(cwd, name), stdin, ...said }).catch((cause: unknown) => {
    throw fileFault(`${name} cannot be read`, cause);
  });

interface LoadParts {
  readonly table: string;
  readonly files: Some<string>;
  readonly mode: LoadMode;
  /** What the flags say of each of the files. */
  readonly said: SaidOfFile;
  /** Columns of a table that is new, or replaced, get these. */
  readonly types: readonly Field[] | undefined;
  /** Another label makes other keys. */
  readonly label: string | undefined;
  /** Gets a line of JSON for each row that cannot be read, and the load goes on; undefined ends it at the first. */
  readonly refusedFile: string | undefined;
  readonly service: ServiceClient;
  readonly context: CliContext;
}

/** The answer of the service to one part of a file. */
interface Loaded {
  readonly num_inserted_rows?: number;
  readonly num_updated_rows?: number;
  readonly num_duplicate_rows?: number;
  readonly num_stale_rows?: number;
  readonly num_invalid_rows?: number;
  readonly invalid_rows?: readonly { readonly row: number; readonly reason: string }[];
  readonly added_columns?: readonly ChangedColumn[];
  readonly widened_columns?: readonly ChangedColumn[];
}

interface ChangedColumn {
  readonly name: string;
  readonly type: string;
  /** Undefined for a new one. */
  readonly was?: string;
}

interface TablePlace {
  readonly location: string;
  readonly is_only_declared?: boolean;
}

export class Load {
  readonly #parts: LoadParts;
  #hasSaidWait = false;
  readonly #sum = { rows: 0, refused: 0, inserted: 0, updated: 0, parts: 0, partsThereBefore: 0 };
  readonly #passedOver = { duplicates: 0, stale: 0 };
  readonly #leftOut: string[] | undefined;
  /** It is the standard input, of which the first rows were looked at. */
  #pipe: InputFile | undefined;

  constructor(parts: LoadParts) {
    this.#parts = parts;
    this.#leftOut = parts.refusedFile === undefined ? undefined : [];
  }

  /** Throws `CliError` or `LancegateError` for what stopped it. */
  async run(): Promise<PrintedRow & { readonly parts: number; readonly partsThereBefore: number }> {
    const { table, mode, refusedFile } = this.#parts;
    if (refusedFile !== undefined)
      await writeFile(refusedFile, '').catch((error: unknown) => {
        throw fileFault(`${refusedFile} cannot be written`, error);
      });
    try {
      if (mode.kind === 'replace') await this.#replace();
      else await this.#addParts(mode);
    } catch (error) {
      throw error instanceof LancegateError ? this.#unreadable(error) : error;
    }
    const hasRules = mode.kind === 'upsert' && Object.keys(mode.rules).length > 0;
    return { table, ...this.#sum, ...(hasRules && this.#passedOver) };
  }

  /** A table that is not there gets its columns with the first part, so that a load that fails before leaves none. */
  async #addParts(mode: Exclude<LoadMode, { readonly kind: 'replace' }>): Promise<void> {
    const { table, files, types } = this.#parts;
    const { kind, on } = mode;
    const isExtending = mode.rules.schema === 'extend';
    const there = await this.#described();
    const made = there === undefined || there.is_only_declared === true ? await this.#columnsOfFile() : undefined;
    let columns = made?.columns ?? (await this.#columnsOfTable());
    if (made === undefined) requireTypes(columns, types);
    for (const path of on) requireKey(path, columns);
    const rules = Object.entries(mode.rules);
    // It overrides the default of the table: a load must not lose rows that it does not report.
    const onInvalid = this.#leftOut === undefined ? '' : 'report';
    const said = new URLSearchParams([...on.map((column): [string, string] => ['on', column]), ...rules]);
    said.set('on_invalid', onInvalid);
    const route = tableRoute(table, `${kind === 'upsert' ? 'merge_insert' : 'insert'}?${said}`);
    let keys: PartKeys | undefined;
    const send = async (part: RowsPart, file: string): Promise<void> => {
      const how = [...on, ...rules.flat(), ...(onInvalid === '' ? [] : [onInvalid])];
      keys ??= this.#keysAt(there?.location ?? (await this.#declare()), kind, how);
      await this.#send(route, part, keys.next(part), file);
    };
    for (const file of files) {
      // The file before may have brought some.
      if (isExtending && keys !== undefined) columns = await this.#columnsOfTable();
      await this.#addFile(file, { table: columns, types, leftOut: this.#leftOut, isExtending }, send);
    }
    if (made !== undefined && keys === undefined) await this.#makeEmpty(made.schema);
  }

  async #addFile(
    file: string,
    known: KnownColumns,
    send: (part: RowsPart, file: string) => Promise<void>,
  ): Promise<void> {
    const { said, context } = this.#parts;
    await using input = (file === '-' && this.#pipe) || (await inputOf(file, said, context));
    const progress = new Progress(context.stderr, context.clock, input.totalBytes);
    try {
      for await (const part of readAhead(partsOf(messagesOfFile(input, known)))) {
        await send(part, file);
        freeMemory(part.body);
        await this.#keepRefused(file);
        progress.show({ bytes: bytesOf(input, part), rows: this.#sum.rows });
      }
    } finally {
      progress.end();
      await this.#keepRefused(file);
    }
  }

  /** A table that was dropped and made again is at another location, and has nothing of what was loaded before. */
  #keysAt(location: string, kind: LoadMode['kind'], how: readonly string[]): PartKeys {
    const { table, label } = this.#parts;
    return new PartKeys([table, location, kind, ...how, label]);
  }

  /** Writes a line for each row that was left out since the last time. */
  async #keepRefused(file: string): Promise<void> {
    const { refusedFile } = this.#parts;
    const reasons = this.#leftOut?.splice(0) ?? [];
    if (refusedFile === undefined || reasons.length === 0) return;
    this.#sum.refused += reasons.length;
    await appendFile(refusedFile, reasons.map((reason) => `${JSON.stringify({ file, reason })}\n`).join(''));
  }

  async #send(route: string, part: RowsPart, key: string, file: string): Promise<void> {
    const { context } = this.#parts;
    const content = { type: arrowStreamType, bytes: part.body };
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
      throw stopped(error, place, this.#sum.parts);
    });
    const { num_invalid_rows: invalid = 0, invalid_rows: listed = [] } = answer;
    this.#leftOut?.push(...listed.map(({ row, reason }) => reason.replace(/^row \d+/, `row ${part.rowsBefore + row}`)));
    if (invalid > listed.length) this.#leftOut?.push(`${place}: ${invalid - listed.length} more of them break a rule`);
    this.#sum.refused += Math.max(invalid - listed.length - 1, 0);
    this.#sum.rows += part.rows - invalid;
    this.#sum.inserted += answer.num_inserted_rows ?? 0;
    this.#sum.updated += answer.num_updated_rows ?? 0;
    this.#passedOver.duplicates += answer.num_duplicate_rows ?? 0;
    this.#passedOver.stale += answer.num_stale_rows ?? 0;
    this.#sum.parts += 1;
    for (const { name, type } of answer.added_columns ?? [])
      context.stderr.write(`the table got column ${name} of ${type}\n`);
    for (const { name, type, was } of answer.widened_columns ?? [])
      context.stderr.write(`column ${name} of the table became ${type}, from ${was}\n`);
    if (isReplay) this.#sum.partsThereBefore += 1;
  }

  #unreadable(error: LancegateError): CliError {
    const { parts, rows } = this.#sum;
    const before = parts === 0 ? 'nothing is loaded' : `${rows} rows before it are loaded`;
    return new CliError(`${error.message}; ${before}`, { cause: error });
  }

  #ask<Answer>(attempt: (service: ServiceClient) => Promise<Answer>): Promise<Answer> {
    const { service, context } = this.#parts;
    const mayPassSaid = (error: unknown): number | undefined => {
      if (error instanceof ServiceSilent) this.#sayWait(error);
      return mayPass(error);
    };
    return untilAnswered(() => attempt(service), { clock: context.clock, pause, mayPass: mayPassSaid });
  }

  /** Says it once, so that a person who gave a wrong address sees why nothing happens. */
  #sayWait({ message }: ServiceSilent): void {
    if (!this.#hasSaidWait) this.#parts.context.stderr.write(`${message}; it is asked again for five minutes\n`);
    this.#hasSaidWait = true;
  }

  /** A new table gets those of the first file. */
  async #columnsOfFile(): Promise<{ readonly schema: Buffer; readonly columns: Schema }> {
    const { files, types, said, context } = this.#parts;
    const isPipe = files[0] === '-';
    const input = await inputOf(files[0], { ...said, isReadTwice: isPipe }, context);
    if (isPipe) this.#pipe = input;
    await using _closed = isPipe ? undefined : input;
    const leftOut: string[] | undefined = this.#leftOut && []; // the rows are read again
    for await (const { bytes } of messagesOfFile(input, { types, leftOut })) {
      const schema = Buffer.from(bytes);
      input.rewind();
      return { schema, columns: schemaOfMessage(schema) };
    }
    throw new CliError(`${files[0]} has no columns`);
  }

  /** Answers undefined where there is no table. */
  async #described(): Promise<TablePlace | undefined> {
    const route = tableRoute(this.#parts.table, 'describe');
    try {
      return await this.#ask((service) => service.json<TablePlace>(route, { body: {} }));
    } catch (error) {
      if (error instanceof ServiceRefusal && error.status === 404) return undefined;
      throw error;
    }
  }

  async #columnsOfTable(): Promise<Schema> {
    const asked = { body: { filter: '1 = 0', k: 1 }, accept: arrowFileType };
    const route = tableRoute(this.#parts.table, 'query');
    const bytes = await this.#ask(async (service) => (await service.ask(route, asked)).arrayBuffer());
    return readSchemaOfIpcFile(Buffer.from(bytes));
  }

  /** It gets its name and its location, which does not change when the first rows bring the columns. Answers the location. */
  async #declare(): Promise<string> {
    const route = tableRoute(this.#parts.table, 'declare');
    try {
      return (await this.#ask((service) => service.json<TablePlace>(route, { body: {} }))).location;
    } catch (error) {
      // Another one was faster, or this one before its answer was lost.
      const there = error instanceof ServiceRefusal && error.status === 409 ? await this.#described() : undefined;
      if (there === undefined) throw error;
      return there.location;
    }
  }

  /** It gets the columns of this message. */
  async #makeEmpty(schema: Uint8Array): Promise<void> {
    const content = { type: arrowStreamType, bytes: streamOf([schema]) as Buffer<ArrayBuffer> };
    await this.#ask((service) => service.ask(tableRoute(this.#parts.table, 'create?mode=exist_ok'), { content }));
  }

  /** Sends one request, whatever the size: the service shows its rows once it has all. */
  async #replace(): Promise<void> {
    const { table, service } = this.#parts;
    const there = await this.#described();
    const route = tableRoute(table, there === undefined ? 'create' : 'insert?mode=overwrite');
    let fault: unknown;
    const bytes = noting(this.#wholeStream(), (error) => {
      fault = error;
    });
    await service.ask(route, { content: { type: arrowStreamType, bytes } }).catch((error) => {
      throw fault ?? error; // a request whose body breaks looks like a service that is away
    });
    this.#sum.inserted = this.#sum.rows;
    this.#sum.parts = 1;
  }

  async *#wholeStream(): AsyncGenerator<Uint8Array> {
    const { files, types, said, context } = this.#parts;
    let schema: Uint8Array | undefined;
    for (const file of files) {
      await using input = await inputOf(file, said, context);
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

/** A service that is busy, restarts or is out of reach may answer later. The key makes it safe to ask again. */
function mayPass(error: unknown): number | undefined {
  if (error instanceof ServiceSilent) return 0;
  if (!(error instanceof ServiceRefusal)) return undefined;
  return [429, 502, 503, 504].includes(error.status) ? (error.retryAfterMs ?? 0) : undefined;
}

function stopped(error: unknown, place: string, partsBefore: number): unknown {
  if (!(error instanceof CliError || error instanceof LancegateError)) return error;
  const next =
    error instanceof ServiceRefusal && error.status === 500
      ? 'whether these rows are loaded is not known; look, and then --run with another word loads the file from its beginning'
      : partsBefore === 0
        ? 'nothing is loaded'
        : 'what was before is loaded, and the same command goes on here';
  return new CliError(`${place}: ${error.message}; ${next}`, { cause: error });
}

/** Refuses files without the column of the key, before the load begins a table that no command could go on with. */
function requireKey(path: string, columns: Schema): void {
  if (resolveField(columns, parseFieldPath(path, '--on')) !== undefined) return;
  const names = columns.fields.map(({ name }) => name).join(', ');
  throw new CliError(`--on: there is no column ${path}; the columns are ${names}`);
}

/** A second run of the command finds the table that the first one made. */
function requireTypes(table: Schema, types: readonly Field[] | undefined): void {
  for (const given of types ?? []) {
    const field = table.fields.find(({ name }) => name === given.name);
    if (field === undefined || typeName(field) === typeName(given)) continue;
    throw new CliError(
      `--types: column ${given.name} of the table, which is there, is ${typeName(field)}; with --replace the rows of the files, and their types, take the place of all that is in it`,
    );
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
