import { WireReader } from '../wire-reader.ts';

/** Field numbers of `lance.file.Field`. */
const name = 2;
const nullable = 6;

/** The columns of a dataset as its manifest lists them, nested ones included, with their ids. */
export interface DataFields {
  /** Whether files written for these columns are as those written for the columns of `target`. */
  fitInto(target: DataFields): boolean;
  readonly stored: readonly StoredField[];
  /** By their metadata: `lance-encoding:blob`, or an extension type of that name. Their bytes may be in files of their own. */
  readonly holdBlobs: boolean;
  /**
   * By their metadata (`lance-schema:unenforced-primary-key`). What the engine inserts there it lists by key in its transaction,
   * for other writers who insert the same keys at the same time.
   */
  readonly haveKey: boolean;
}

interface StoredField {
  /** Everything but whether NULL is allowed. */
  readonly rest: string;
  readonly isNullable: boolean;
  readonly holdsBlobs: boolean;
  readonly isKey: boolean;
}

/** Of the raw fields of a manifest, each with its number before it. */
export function readDataFields(raws: readonly Uint8Array[]): DataFields {
  const stored = raws.map(readField);
  const holdBlobs = stored.some((field) => field.holdsBlobs);
  const haveKey = stored.some(({ isKey }) => isKey);
  return { stored, holdBlobs, haveKey, fitInto: (target) => fits(stored, target.stored) };
}

/**
 * The same columns in the same order, with the same ids and metadata. A column without NULLs may be stored where they are
 * allowed.
 */
function fits(source: readonly StoredField[], target: readonly StoredField[]): boolean {
  return (
    source.length === target.length &&
    source.every((field, index) => {
      const into = target[index];
      return into !== undefined && field.rest === into.rest && (into.isNullable || !field.isNullable);
    })
  );
}

function readField(raw: Uint8Array): StoredField {
  const outer = new WireReader(raw);
  outer.next();
  const reader = outer.message();
  const rest: string[] = [];
  let isNullable = false;
  let holdsBlobs = false;
  let isKey = false;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === nullable) isNullable = reader.flag();
    else {
      const raw = Buffer.from(reader.raw()).toString('latin1');
      rest.push(raw);
      holdsBlobs ||= field !== name && raw.includes('blob');
      isKey ||= field !== name && raw.includes('unenforced-primary-key');
    }
  }
  return { rest: rest.sort().join('\n'), isNullable, holdsBlobs, isKey };
}
