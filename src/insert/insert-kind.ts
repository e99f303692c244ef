/**
 * How inserted rows get into a branch: those of all requests of a batch become one source, which the engine writes, and the commit
 * adds its fragments to the head. Rows that the engine alone may add are appended in a shadow.
 */
import { canConcat, concatRows } from '../arrow/column/concat-rows.ts';
import { schemaFingerprint } from '../arrow/schema/read-schema.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { PreparedRows } from '../engine/port/row-address.ts';
import {
  type Committed,
  type Head,
  longestTime,
  requireTime,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteRequest,
} from '../write/write.ts';

/** Rows that were received and fit their table. */
export interface InsertRequest extends WriteRequest {
  readonly kind: 'insert';
  readonly chunk: IpcChunk;
}

/** Equal for inserts that may share a commit; undefined for one that is committed alone. */
export function insertBatchKey({ table, chunk }: InsertRequest): string | undefined {
  return canConcat([chunk]) ? JSON.stringify(['insert', table.id, schemaFingerprint(chunk)]) : undefined;
}

export class InsertKind implements WriteKind<InsertRequest> {
  /** Nothing is kept. */
  forget(): void {}

  batch(requests: readonly InsertRequest[]): WriteBatch {
    const batch = new InsertBatch(requests);
    return {
      numRows: batch.numRows,
      on: [],
      commit: (head) => batch.commit(head),
      discard: () => batch.discard(),
    };
  }
}

class InsertBatch {
  readonly numRows: number;
  readonly #requests: readonly InsertRequest[];
  #chunk: IpcChunk | undefined;
  #prepared: PreparedRows | undefined;

  constructor(requests: readonly InsertRequest[]) {
    this.#requests = requests;
    this.numRows = requests.reduce((sum, { chunk }) => sum + chunk.rows, 0);
  }

  async commit(head: Head): Promise<Committed | 'overtaken'> {
    if (this.numRows === 0) return unchanged(this.#requests, head);
    const { dataset } = head;
    this.#prepared ??= dataset.prepareRows(this.#rows);
    const added = await dataset.appendRows(this.#prepared);
    const made = added === 'refused' ? await this.#appendInShadow(head) : added;
    return made === 'overtaken' ? made : this.#committed(made.version);
  }

  discard(): void {
    this.#prepared?.discard();
  }

  async #appendInShadow({ dataset, version }: Head): Promise<{ readonly version: number } | 'overtaken'> {
    const shadow = await dataset.shadow();
    try {
      if (shadow.baseVersion !== version) return 'overtaken';
      const limits = { timeoutMs: longestTime(this.#requests), principal: undefined };
      await shadow.change({ kind: 'append', rows: this.numRows }, this.#rows.file, limits);
      return await shadow.commit(() => requireTime(this.#requests));
    } finally {
      shadow.discard();
    }
  }

  /** Throws `FaultyPart` with the number of a request whose values are malformed. */
  get #rows(): IpcChunk {
    const [first, ...others] = this.#requests;
    this.#chunk ??=
      others.length === 0 ? first!.chunk : concatRows(this.#requests.map(({ chunk }) => ({ chunk, keep: undefined })));
    return this.#chunk;
  }

  #committed(version: number): Committed {
    const each = this.#requests.map(({ chunk: { rows } }) => ({
      numInsertedRows: rows,
      numUpdatedRows: 0,
      numDeletedRows: 0,
    }));
    return {
      version,
      count: async () => ({ each, by: undefined }),
      mostFragments: 1,
      gainsByIndex: false,
      surplusRows: 0,
    };
  }
}
