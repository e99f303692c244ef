/**
 * How inserted rows get into a branch: those of all requests of a batch become one source, which the engine writes, and the commit
 * adds its fragments to the head. A large source is staged already. Rows that the engine alone may add are appended in a shadow.
 */
import { canConcat, concatRows } from '../arrow/column/concat-rows.ts';
import { formatFieldPath } from '../arrow/schema/field-path.ts';
import { schemaFingerprint } from '../arrow/schema/read-schema.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { Projection } from '../engine/port/merge-spec.ts';
import { isMade } from '../engine/port/refusal.ts';
import type { PreparedRows, Replacing, StagedSource } from '../engine/port/row-address.ts';
import type { Shadow } from '../engine/port/shadow.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Some } from '../kernel/some.ts';
import type { ToldOfRules } from '../table/row-faults.ts';
import {
  type Committed,
  type Head,
  isAtHead,
  longestTime,
  requireTime,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteRequest,
  type WriteTotals,
} from '../write/write.ts';

export type InsertMode = 'append' | 'overwrite';

/** The rows were received and fit their table. At least one of `chunk` and `staged` has all of them. */
export interface InsertRequest extends WriteRequest {
  readonly kind: 'insert';
  /** `overwrite`: the branch has these rows and columns only. */
  readonly mode: InsertMode;
  readonly rows: number;
  readonly chunk: IpcChunk | undefined;
  /** Its owner discards it when the request is over. */
  readonly staged: StagedSource | undefined;
  /** What its answer says besides its counts. */
  readonly told: ToldOfRules;
}

/** It is equal for inserts that may share a commit; undefined for one that is committed alone. */
export function insertBatchKey({ table, mode, chunk, staged }: InsertRequest): string | undefined {
  if (mode === 'overwrite' || staged !== undefined || chunk === undefined || !canConcat([chunk])) return undefined;
  return JSON.stringify(['insert', table.id, schemaFingerprint(chunk)]);
}

export const insertKind: WriteKind<InsertRequest> = { batch: (requests) => new InsertBatch(requests) };

class InsertBatch implements WriteBatch {
  readonly numRows: number;
  readonly on = [];
  readonly #requests: Some<InsertRequest>;
  /** Each request has one, unless it has more rows than a chunk. */
  readonly #chunks: readonly IpcChunk[];
  #chunk: IpcChunk | undefined;
  #prepared: PreparedRows | undefined;

  constructor(requests: Some<InsertRequest>) {
    this.#requests = requests;
    this.#chunks = requests.flatMap(({ chunk }) => chunk ?? []);
    this.numRows = requests.reduce((sum, { rows }) => sum + rows, 0);
  }

  async commit(head: Head): Promise<Committed | 'overtaken'> {
    const { mode, staged } = this.#requests[0];
    if (mode === 'append' && this.numRows === 0) return { ...unchanged(this.#requests, head), count: this.#counted };
    const written = await this.#commitWritten(head, mode, staged);
    const made = written === 'overtaken' || isMade(written) ? written : await this.#commitInShadow(head, mode, staged);
    return made === 'overtaken' ? made : this.#committed(made.version);
  }

  discard(): void {
    this.#prepared?.discard();
  }

  async #commitWritten(head: Head, mode: InsertMode, staged: StagedSource | undefined): Promise<Replacing> {
    if (!(await isAtHead(head))) return 'overtaken';
    const properties = head.note?.(this.#totals);
    if (staged !== undefined) return head.dataset.insertRows(staged, mode, properties);
    if (mode === 'overwrite') return { refused: 'not staged' };
    this.#prepared ??= head.dataset.prepareRows(this.#rows);
    return head.dataset.insertRows(this.#prepared, mode, properties);
  }

  async #commitInShadow({ dataset, version, note }: Head, mode: InsertMode, staged: StagedSource | undefined) {
    const shadow = await dataset.shadow();
    try {
      if (shadow.baseVersion !== version) return 'overtaken';
      if (staged !== undefined && this.#chunks.length < this.#requests.length)
        await this.#appendStaged(shadow, mode, staged, columnsOf(this.#requests));
      else {
        const limits = { timeoutMs: longestTime(this.#requests), principal: undefined };
        await shadow.change({ kind: mode, rows: this.numRows }, this.#checkedRows.file, limits);
      }
      return await shadow.commit(() => requireTime(this.#requests), note?.(this.#totals));
    } finally {
      shadow.discard();
    }
  }

  /** The parts are steps of one commit, which a table that has no shadow cannot have. */
  async #appendStaged(
    shadow: Shadow,
    mode: InsertMode,
    staged: StagedSource,
    columns: readonly Projection[],
  ): Promise<void> {
    if (!shadow.isPrivate || mode === 'overwrite')
      throw new LancegateError(
        'BodyTooLarge',
        'this table can only take an insert that fits one chunk: the engine alone commits to it; send fewer rows at a time',
      );
    const limits = () => ({ timeoutMs: longestTime(this.#requests), principal: undefined });
    for await (const file of staged.select(columns, limits())) {
      await shadow.change({ kind: 'append', rows: 0 }, file, limits());
      requireTime(this.#requests);
    }
  }

  /** Throws `FaultyPart` with the number of a request whose values are malformed. */
  get #rows(): IpcChunk {
    const [first, ...others] = this.#chunks;
    if (first === undefined) throw new LancegateError('Internal', 'an insert without rows');
    this.#chunk ??= others.length === 0 ? first : this.#concat();
    return this.#chunk;
  }

  /** Checks the rows of a request alone, too: of malformed values the engine may store a part, and report a success. */
  get #checkedRows(): IpcChunk {
    if (this.#chunks.length === 1 && canConcat(this.#chunks)) this.#chunk = this.#concat();
    return this.#rows;
  }

  #concat(): IpcChunk {
    return concatRows(this.#chunks.map((chunk) => ({ chunk, keep: undefined })));
  }

  get #totals(): readonly WriteTotals[] {
    return this.#requests.map(({ rows, told }) => ({
      numInsertedRows: rows,
      numUpdatedRows: 0,
      numDeletedRows: 0,
      ...told,
    }));
  }

  readonly #counted = async () => ({ each: this.#totals, by: undefined });

  #committed(version: number): Committed {
    return { version, count: this.#counted, surplusRows: 0 };
  }
}

/** A staged append has these, and the table may have more by now. */
const columnsOf = ([request]: Some<InsertRequest>): readonly Projection[] =>
  (request.fit?.checked.fields ?? []).map(({ name }) => ({ name, expression: formatFieldPath({ segments: [name] }) }));
