import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { Schema } from '../../arrow/schema/schema.ts';

/** The columns of a table. */
export interface TableColumns {
  readonly schema: Schema;
  /** A file of this schema, without rows. */
  readonly file: IpcFile;
}
