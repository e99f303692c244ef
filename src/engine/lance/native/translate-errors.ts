/**
 * Reads the engine's error texts, as no other file does but `sql-error-rules.ts`. They have build paths of the engine in them, so not a
 * word of them goes to a caller except the parts captured here: names the caller wrote, and the SQL parser's complaint.
 * A text that fits no rule is `Internal`; the whole of it goes to the log. Shapes seen with @lancedb/lancedb 0.39.0
 * (docs/engine-facts.md, "Errors"); `test/engine/errors.test.ts` provokes each with the real engine.
 */
import { codeOf, LancegateError, storageFull, storageUnavailable, timedOutText } from '../../../kernel/errors.ts';
import { isObject } from '../../../kernel/json-bounds.ts';
import { UnboundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import type { EngineRefusal } from '../../port/refusal.ts';
import { evaluationRules, filterRules, queryRules, type Rule, rowNames } from './sql-error-rules.ts';

const takenText = 'another program stored a table at the location of this one';

/** `branch` is undefined for main. */
export const nothingStored = (branch: string | undefined): LancegateError =>
  branch === undefined
    ? new LancegateError('TableNotFound', 'nothing is stored where the table should be')
    : new LancegateError('TableBranchNotFound', 'the table has no such branch');

export const locationTaken = (): LancegateError =>
  new LancegateError('ConcurrentCreate', takenText, {
    internal: { refusal: 'location taken' satisfies EngineRefusal },
  });

const createRules: readonly Rule[] = [
  [/already exists/, 'ConcurrentCreate', takenText, 'location taken'],
  [
    /Primary key column .* must not be nullable: Field\(id=\d+, name=(.+?), type=/s,
    'TableSchemaValidationError',
    'column {part} is a primary key by its metadata, and must not be nullable',
  ],
];

const noVectors = 'the table has no vectors to train the index with: add rows first';

const fullShape = /(?:No space left on device|Disk quota exceeded)/;

/**
 * What a file system of this machine says, by number. An object store may have done what it was asked before no socket
 * could be opened to ask it again.
 */
const unavailableShape =
  /LanceError\(IO\): (?:Generic LocalFileSystem error: (?:[^:]+: ){1,3})?[^:(]+\(os error (1|13|23|24|30)\)/;
const unavailable: Readonly<Record<string, string>> = {
  1: 'the storage denies access',
  13: 'the storage denies access',
  23: 'too many files are open',
  24: 'too many files are open',
  30: 'the storage is read-only',
  EPERM: 'the storage denies access',
  EACCES: 'the storage denies access',
  ENFILE: 'too many files are open',
  EMFILE: 'too many files are open',
  EROFS: 'the storage is read-only',
};
/** The removal of a file by Node has no code for it. */
const readOnlyShape = /^, Unknown error: Read-only file system/;
const recordStaysShape = /Unable to delete file [^:]*\/_refs\/branches\//;
/** Codes of Node, which writes files of shadows and of replacements: up to the commit nothing of them can be seen. */
const fullCodes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

/** The engine could neither commit nor see whether it had. */
const unknownShape = /Commit result for version \d+ is unknown/;

const rowRules: readonly Rule[] = [
  [unknownShape, 'Internal', 'whether the rows were written is not known'],
  [
    /Unknown compression scheme: ([^/\n]+?)(?:, \/|\n| {2}Caused|$)/,
    'TableSchemaValidationError',
    'lance-encoding:compression: the scheme {part} is unknown',
  ],
  [
    /Cannot determine structural encoding for field (.+?)\. /s,
    'TableSchemaValidationError',
    'column {part}: lance-encoding:structural-encoding is unknown',
  ],
  [
    /The struct field `(.+?)` contains \d+ null value/s,
    'TableSchemaValidationError',
    'column {part} holds structs that are NULL, which storage version 2.0 cannot store; 2.1 can',
  ],
  [
    /Arrays of type Null cannot contain a null bitmask/,
    'InvalidInput',
    'a struct that is NULL has a field of type null, which the engine cannot store: give that field a type, or leave it out',
  ],
  [
    /Ambiguous merge inserts are prohibited.* on \((.+?)\)\. /s,
    'InvalidInput',
    'several rows of the source have the same key ({part})',
    'ambiguous merge',
  ],
  [/key column '(.+?)' does not exist in schema/, 'TableColumnNotFound', 'on: the table has no column {part}'],
  [
    /field `(.+?)` contained null values/,
    'TableSchemaValidationError',
    'column {part} must not be null, and a row of the source leaves it so',
  ],
  [
    /Column '(.+?)' is declared as non-nullable but contains null values/s,
    'TableSchemaValidationError',
    'column {part} must not be null, and in a row it would be',
  ],
  [
    /Append with different schema: `(.+?)` should have type/,
    'TableSchemaValidationError',
    'column {part} has another type in the table',
  ],
  [/Append with different schema/, 'TableSchemaValidationError', 'the columns of the source do not fit the table'],
  [/merge insert timed out/, 'TimedOut', timedOutText],
  [
    /Too many concurrent writers|[Cc]ommit conflict|Retryable commit|incompatible with concurrent/,
    'ConcurrentModification',
    'another writer changed the table at the same time; nothing was written',
  ],
  [fullShape, 'Internal', 'the storage is full'],
  // A source is never decoded from Lance's own format: what panics there is a stored file that the disk or another program spoilt.
  [/lance-encoding-[^/]+\/src\/decoder\.rs/, 'Internal', 'what is stored cannot be read'],
];

const unreadableRows: Rule = [
  /Failed to read IPC file|LanceError\(Arrow\)|Arrow error|Cast error|Parser error|Invalid argument error|[Pp]anic|Spill has been dropped/,
  'InvalidInput',
  'the data of a record batch cannot be read: its values do not fit its types',
];

/** The rows of a table were checked before they were stored: what panics over them is at fault itself. */
const panicked: Rule = [/[Pp]anic/, 'Internal', 'the storage engine failed'];

/** What it says where a row that is moved has two fields of one name. */
const doubleFields: Rule = [
  /TakeExec requires the input plan to have a column named/,
  'TableSchemaValidationError',
  'a struct of the table has two fields of one name, and Lance can only read it; drop the column',
];

export const isPanic = (error: unknown): boolean => error instanceof Error && panicked[0].test(error.message);

const branchRules: readonly Rule[] = [
  [/_versions\/\d+\.manifest/, 'TableVersionNotFound', 'the table has no such version'],
  [/Ref is invalid: ([^/\n]+?)(?: {2}Caused|, \/|$)/, 'InvalidInput', 'the branch name is not valid: {part}'],
  [/Ref not found|\/tree\/.*\/_versions/, 'TableBranchNotFound', 'the table has no such branch'],
  [/referenced by tags/, 'InvalidTableState', 'a tag names a version of the branch; delete the tag first'],
  [/Clone operation should not enter|already exists/, 'TableBranchAlreadyExists', 'a branch of this name exists'],
  [/Ref conflict error/, 'InvalidTableState', 'the branch has other branches that start from it'],
];

const openRules: readonly Rule[] = [
  [/_versions\/\d+\.manifest/, 'TableVersionNotFound', 'the table has no such version'],
  [/\/tree\/.*\/_versions/, 'TableBranchNotFound', 'the table has no such branch'],
  [/was not found|Not found/, 'TableNotFound', 'nothing is stored where the table should be'],
];

/** Tables that other programs have made hold what the engine reads and cannot write. */
const anyRules: readonly Rule[] = [
  [
    /The field (.+?) is an empty struct that/s,
    'TableSchemaValidationError',
    'column {part} holds structs without fields, and Lance stores none of them that is NULL or in a list; drop the column',
  ],
  [
    /Found legacy blob field: (.+?)\. /s,
    'TableSchemaValidationError',
    'column {part} holds blobs of a form that the storage version of the table does not have; drop the column',
  ],
  [
    /Duplicate field id (\d+) in schema .*?name: "(?<part>[^"]*)", id: \1,/s,
    'TableSchemaValidationError',
    'a struct has two fields {part}, and Lance can only read it; drop the column',
  ],
  [
    /Cannot add all-null columns to legacy dataset version/,
    'TableSchemaValidationError',
    'the files of the table have the first version of Lance, to which no column without values can be added',
  ],
  // On an object store; on a file system `branch-state.ts` refuses it first.
  [
    /This dataset cannot be (?:read|written) by this version of Lance\..*Flags: (\d+)/s,
    'InvalidTableState',
    'the table was written by a newer version of Lance, with feature flags {part} that this engine does not know',
  ],
];

const columnRules: readonly Rule[] = [
  [/Cannot cast column "(.+?)" from/s, 'InvalidInput', '{part}: the engine does not cast its type to data_type'],
  [
    /Cannot cast column\(s\) \[(.+?)\] to a new type: they have/s,
    'InvalidInput',
    '{part}: an index is on the column, so its type cannot change; drop the index first',
  ],
  [
    /Column "(.+?)" contains NULL values/s,
    'InvalidInput',
    '{part}: the column holds NULLs, so nullable cannot become false',
  ],
  [/^Invalid data type: /, 'InvalidInput', 'data_type: the engine knows no such type'],
  [/Cannot drop all columns/, 'InvalidInput', 'a table keeps at least one column'],
  [/Column (.+?) already exists in the dataset/s, 'InvalidInput', 'the table has a column {part} already'],
  [/Column "?(.+?)"? does not exist in the dataset/s, 'TableColumnNotFound', 'the table has no column {part}'],
  [
    /Primary key column and all its ancestors must not be nullable: Field\(id=\d+, name=(.+?), type=/s,
    'InvalidInput',
    '{part}: a primary key must not be nullable, nor a struct that it is in; set nullable to false first',
  ],
  [
    /Primary key column must be a leaf: Field\(id=\d+, name=(.+?), type=/s,
    'InvalidInput',
    '{part}: a primary key is of one value, and the column has parts',
  ],
  [
    /unenforced primary key is a reserved key and cannot be changed/,
    'InvalidInput',
    'a primary key stays once it is set',
  ],
  [
    /unenforced primary key is a reserved key/,
    'InvalidInput',
    'lance-schema:unenforced-primary-key:position must be a number from 1',
  ],
];

/** The request is checked before; these depend on the rows, or on what the engine's version of an index takes. */
const indexRules: readonly Rule[] = [
  [
    /index cannot be created on the field `(.+?)` which has data type/s,
    'InvalidInput',
    'column: the engine builds no index of this type on values like those of {part}; choose another index_type',
  ],
  [
    /Not enough rows to train PQ\. Requires (\d+) rows/,
    'InvalidInput',
    'the index needs at least {part} rows with a vector to be trained: add rows first, or choose IVF_FLAT',
  ],
  [
    /KMeans cannot train (\d+) centroids/,
    'InvalidInput',
    'num_partitions: {part} partitions are too many for the rows of the table: choose fewer',
  ],
  [/Creating empty vector indices|No (?:valid )?vectors|KMeans.*?\b0 vectors/s, 'InvalidInput', noVectors],
  [
    /num_sub_vectors must divide vector dimension (\d+)/,
    'InvalidInput',
    'num_sub_vectors: it must divide the dimension, {part}',
  ],
  [
    /vector dimension must be divisible by 8 for IVF_RQ/,
    'InvalidInput',
    'column: IVF_RQ takes vectors whose dimension divides by 8; choose another index_type',
  ],
  [
    /Unsupported data type (\w+) with distance type/,
    'InvalidInput',
    'distance_type: vectors of {part} cannot be compared with this one',
  ],
];

/**
 * The manifest comes last, and before it nothing of these can be seen, or what can is undone. Maintenance may have done one of its
 * steps already.
 */
const unseenUntilDone: ReadonlySet<EngineCall> = new Set([
  'create',
  'append',
  'merge',
  'filtered merge',
  'change',
  'restore',
  'replace',
  'index',
  'compaction',
  'new branch',
  'local folder',
]);

/** What was being done; decides which shapes are looked for. */
export type EngineCall =
  | 'open'
  /** A folder of this process is filled: with what is known of a branch of a store, or with a view. */
  | 'local folder'
  | 'create'
  | 'append'
  | 'merge'
  /** Under a client's filter, which may be at fault. */
  | 'filtered merge'
  /** A step that evaluates clients' SQL, or changes columns. */
  | 'change'
  /** A version made from a manifest alone. */
  | 'restore'
  | 'replace' // files and a manifest of our own become the next version, or the first
  | 'select'
  /** A client sent it. */
  | 'query'
  | 'count'
  | 'branch'
  /** Who calls it undoes what a failure leaves. */
  | 'new branch'
  | 'maintain'
  /** It runs in a shadow. */
  | 'compaction'
  | 'index'
  | 'sync'
  | 'remove';

const rulesFor: Readonly<Record<EngineCall, readonly Rule[]>> = {
  open: openRules,
  'local folder': openRules,
  create: [...createRules, ...rowRules, unreadableRows],
  append: [...rowRules, unreadableRows],
  merge: [...filterRules, ...rowRules, unreadableRows],
  'filtered merge': [...filterRules, ...rowRules, ...evaluationRules, unreadableRows],
  change: [...columnRules, ...filterRules, ...rowRules, ...evaluationRules, unreadableRows],
  restore: [...openRules, ...rowRules],
  replace: [...rowRules, unreadableRows],
  select: filterRules,
  query: [...queryRules, ...filterRules, ...evaluationRules],
  count: [rowNames, ...filterRules, ...evaluationRules],
  branch: branchRules,
  'new branch': branchRules,
  maintain: [panicked, ...rowRules, unreadableRows],
  compaction: [panicked, doubleFields, ...rowRules, unreadableRows],
  index: [panicked, ...indexRules, ...rowRules, unreadableRows],
  sync: [],
  remove: [],
};

/** `filter` is how a filter at fault is called in the message. */
export function translateEngineError(call: EngineCall, error: unknown, filter: string): LancegateError {
  if (error instanceof LancegateError) return error;
  if (error instanceof UnboundedColumns)
    return new LancegateError('InvalidTableState', unreadable(error), { cause: error });
  const text = error instanceof Error ? error.message : String(error);
  const isUnseen = unseenUntilDone.has(call) || refusesFirstStep(call, text, error);
  const ofStorage = isUnseen ? storageRefusal(text, error, { engineCall: call }) : undefined;
  if (ofStorage !== undefined) return ofStorage;
  for (const [shape, kind, template, refusal] of [...anyRules, ...rulesFor[call]]) {
    const match = shape.exec(text);
    if (match === null) continue;
    const parts: Readonly<Record<string, string | undefined>> = { part: match.groups?.part ?? match[1], filter };
    const message = template.replace(/\{(part|filter)\}/g, (_, name: string) => parts[name] ?? '');
    return new LancegateError(kind, message, { cause: error, internal: { engineCall: call, refusal } });
  }
  return new LancegateError('Internal', 'the storage engine failed', { cause: error, internal: { engineCall: call } });
}

/** A branch stays as long as its record, and where nothing can be written maintenance has done none of its steps. */
function refusesFirstStep(call: EngineCall, text: string, error: unknown): boolean {
  if (call === 'branch') return recordStaysShape.test(text);
  return call === 'maintain' && (isReadOnly(text, error) || unavailableShape.exec(text)?.[1] === '30');
}

const unreadable = ({ message }: UnboundedColumns): string =>
  `this version of the table cannot be read, since native code could end the service: ${message}`;

/** undefined where the storage is not at fault, or something may have been written. */
function storageRefusal(
  text: string,
  cause: unknown,
  internal: { engineCall: EngineCall },
): LancegateError | undefined {
  if (unknownShape.test(text)) return undefined;
  const code = isReadOnly(text, cause) ? 'EROFS' : (codeOf(cause) ?? '');
  if (fullShape.test(text) || fullCodes.has(code)) return storageFull(cause, internal);
  const why = unavailable[unavailableShape.exec(text)?.[1] ?? code];
  if (why === undefined) return undefined;
  return storageUnavailable(why, cause, internal);
}

/** On a read-only file system Node says of a folder that it makes with its parents that it finds no parent. */
function isReadOnly(text: string, cause: unknown): boolean {
  const { code, syscall } = isObject(cause) ? cause : {};
  return code === 'EROFS' || readOnlyShape.test(text) || (code === 'ENOENT' && syscall === 'mkdir');
}

/** Runs one engine call; its failure leaves as a `LancegateError`. */
export async function engineCall<Result>(
  call: EngineCall,
  run: () => Promise<Result>,
  filter = 'the filter',
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw translateEngineError(call, error, filter);
  }
}
