/**
 * This is the one catalogue of errors. Every refusal this service can make is a row here: its code in the namespace
 * specification, its HTTP status, what it means, whether anything was written, and whether a retry can help.
 * `docs/errors.md` and the tests are checked against it. It holds no texts of the engine: adapters translate.
 */

/** What a caller may assume of the state of the table after the error (P6). */
type Written = 'nothing' | 'unknown';
/** `never`: the same request fails again. `later`: it may succeed unchanged. */
type Retry = 'never' | 'later';

export interface ErrorEntry {
  /** The code in the Lance namespace specification (0-23). */
  readonly code: number;
  readonly status: 400 | 401 | 403 | 404 | 405 | 406 | 409 | 410 | 413 | 421 | 431 | 500 | 503;
  readonly meaning: string;
  readonly written: Written;
  readonly retry: Retry;
}

const entry = (
  code: number,
  status: ErrorEntry['status'],
  retry: Retry,
  meaning: string,
  written: Written = 'nothing',
): ErrorEntry => ({ code, status, retry, meaning, written });

export const errorCatalogue = {
  Unsupported: entry(0, 406, 'never', 'The route is in the specification, and this service does not offer it.'),
  NoSuchRoute: entry(0, 404, 'never', 'No such route.'),
  MethodNotAllowed: entry(0, 405, 'never', 'The path is a route by other methods, which `Allow` names.'),
  NamespaceNotFound: entry(1, 404, 'never', 'The namespace does not exist.'),
  NamespaceAlreadyExists: entry(2, 409, 'never', 'A namespace of this name exists.'),
  NamespaceNotEmpty: entry(3, 409, 'never', 'The namespace holds tables or namespaces, and cascade was not asked for.'),
  TableNotFound: entry(4, 404, 'never', 'The table does not exist.'),
  TableAlreadyExists: entry(5, 409, 'never', 'A table of this name exists.'),
  TableIndexNotFound: entry(6, 404, 'never', 'The table has no index of this name.'),
  TableIndexAlreadyExists: entry(7, 409, 'never', 'An index of this name exists, and the request must not replace it.'),
  TableTagNotFound: entry(8, 404, 'never', 'The table has no such tag.'),
  TableTagAlreadyExists: entry(9, 409, 'never', 'A tag of this name exists.'),
  JobNotFound: entry(10, 404, 'never', 'No job of this id is known; those of before the last start are not.'),
  TransactionNotFound: entry(10, 404, 'never', 'No transaction of this id is known.'),
  TableVersionNotFound: entry(11, 404, 'never', 'The table has no such version.'),
  ChangesGone: entry(
    11,
    410,
    'never',
    'The versions between which changes were asked for are not all there any more; the message names the oldest that is.',
  ),
  TableColumnNotFound: entry(12, 400, 'never', 'A field path names no column of the table or of the source.'),
  InvalidInput: entry(13, 400, 'never', 'A parameter, an identifier or the body is malformed.'),
  BodyTooLarge: entry(13, 413, 'never', 'The body is larger than this service accepts.'),
  HeadTooLarge: entry(13, 431, 'never', 'The request line and the headers are larger than this service accepts.'),
  ConcurrentCreate: entry(14, 409, 'later', 'Another create of the same table was under way, and won.'),
  ConcurrentModification: entry(14, 503, 'later', 'Another writer kept changing the table; nothing was written.'),
  VersionTaken: entry(14, 409, 'never', 'The table has a version of this number already.'),
  PermissionDenied: entry(15, 403, 'never', 'The policy does not allow this principal this action.'),
  Unauthenticated: entry(16, 401, 'never', 'No credential, or one that is not valid.'),
  WriterMoved: entry(17, 503, 'later', 'Another replica writes to the table by now; nothing was written.'),
  JobCancelled: entry(14, 400, 'never', 'The job was cancelled; nothing was written.'),
  SlowDown: entry(17, 503, 'later', 'The service is at its limit, or stopping; nothing was written.'),
  TimedOut: entry(
    17,
    503,
    'later',
    'The time the request allowed itself ran out before its commit, or its body stalled; nothing was written.',
  ),
  StorageFull: entry(17, 503, 'later', 'The disk of the tables or of the catalog is full; nothing was written.'),
  StorageUnavailable: entry(
    17,
    503,
    'later',
    'The storage of the tables is read-only, denies access or does not answer, or too many files are open; nothing was written.',
  ),
  CatalogUnavailable: entry(
    17,
    503,
    'later',
    'The database of the catalog does not answer, or takes no such work at present; nothing was written.',
  ),
  WriteEndsReaders: entry(
    13,
    400,
    'never',
    'The write ended two of the processes that compute for clients, or exceeded their memory twice; nothing was written.',
  ),
  ReaderDied: entry(
    17,
    503,
    'later',
    'The process that ran the query or the write died, or exceeded its memory and was killed; nothing was written.',
  ),
  IssuerUnavailable: entry(17, 503, 'later', 'The authorization server that must vouch for the token does not answer.'),
  Internal: entry(18, 500, 'later', 'A defect or a failing disk; see the log under this request id.', 'unknown'),
  OutcomeUnknown: entry(
    18,
    500,
    'never',
    'A crash came between the commit of the first request with this Idempotency-Key and the record of it.',
    'unknown',
  ),
  NotOwner: entry(
    17,
    421,
    'later',
    'Another replica owns the table. Replicas say so to one another; no client sees it.',
  ),
  OwnerLost: entry(
    18,
    500,
    'later',
    'The replica that owns the table had the request and did not answer: it ended, or the network between replicas did.',
    'unknown',
  ),
  InvalidTableState: entry(
    19,
    400,
    'never',
    'The table is only declared and the operation needs it on storage, or what is stored there forbids it.',
  ),
  TableDamaged: entry(
    19,
    500,
    'never',
    'Files of the table are missing or torn; the log names them under this request id. Nothing was written.',
  ),
  TableSchemaValidationError: entry(20, 400, 'never', 'The schema cannot be stored, or does not fit the table.'),
  TableBranchNotFound: entry(22, 404, 'never', 'The table has no such branch.'),
  TableBranchAlreadyExists: entry(23, 409, 'never', 'A branch of this name exists.'),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorName = keyof typeof errorCatalogue;

/**
 * `message` is shown to the caller and must hold nothing but the caller's own words and ours;
 * what helps the operator goes into `cause` and `internal`, which only the log sees.
 */
export class LancegateError extends Error {
  override readonly name = 'LancegateError';
  readonly kind: ErrorName;
  readonly internal: Readonly<Record<string, unknown>> | undefined;
  /** Seconds after which a retry makes sense; only with retry `later`. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    kind: ErrorName,
    message: string,
    options: { cause?: unknown; internal?: Readonly<Record<string, unknown>>; retryAfterSeconds?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.internal = options.internal;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get entry(): ErrorEntry {
    return errorCatalogue[this.kind];
  }
}

/** `why` is all that the caller gets to read. An operator has to act first: a client that comes back at once is of no use. */
const storageRefusal =
  (kind: ErrorName) =>
  (why: string, cause: unknown, internal: Readonly<Record<string, unknown>>): LancegateError =>
    new LancegateError(kind, `${why}; nothing was written`, { cause, internal, retryAfterSeconds: 10 });

export const storageUnavailable = storageRefusal('StorageUnavailable');

export const storageFull = (cause: unknown, internal: Readonly<Record<string, unknown>>): LancegateError =>
  storageRefusal('StorageFull')('the storage is full', cause, internal);

/** What a call of the system says is wrong, such as ENOENT; undefined for any other error. */
export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

/** For the later steps of a work of several: that nothing was written is true of the step that failed only. */
export function notTheFirstStep(error: unknown): never {
  if (!(error instanceof LancegateError && storageErrors.has(error.kind))) throw error;
  throw new LancegateError('Internal', 'the storage or the catalog refused a later step', { cause: error });
}

/** As `notTheFirstStep` where an earlier one has done something. */
export const notTheFirstStepIf =
  (hasDone: boolean) =>
  (error: unknown): never => {
    if (hasDone) notTheFirstStep(error);
    throw error;
  };

const storageErrors: ReadonlySet<ErrorName> = new Set(['StorageFull', 'StorageUnavailable', 'CatalogUnavailable']);

export const isStorageFull = (error: unknown): boolean =>
  error instanceof LancegateError && error.kind === 'StorageFull';

/** False where it is certain that nothing was written. */
export const isOutcomeUnknown = (error: unknown): boolean =>
  error instanceof LancegateError && error.entry.written === 'unknown';

export const invalidInput = (message: string, cause?: unknown): LancegateError =>
  new LancegateError('InvalidInput', message, cause === undefined ? {} : { cause });

/** A full queue refuses. `waiters` names its members in the plural, such as "writers of this table". */
export const queueIsFull = (waiters: string): LancegateError =>
  new LancegateError('SlowDown', `too many ${waiters} wait already`, { retryAfterSeconds: 1 });

export const timedOutText = 'the time allowed for the write ran out; nothing was written';

export const timedOut = (cause?: unknown): LancegateError => new LancegateError('TimedOut', timedOutText, { cause });
