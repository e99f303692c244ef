/** Only this file reads PostgreSQL's error codes and the driver's failures; their texts are never looked at. */
import { DatabaseError } from 'pg';
import { LancegateError, storageFull } from '../../kernel/errors.ts';

/** The database could not be reached, or the connection was lost: what was under way is undone, or its `COMMIT` was not answered. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/** None could be had, so nothing was begun, and another try would wait for as long. */
export class NoConnection extends ConnectionLost {}

/** The connection was lost between a `COMMIT` and its answer: the transaction took place or not. */
export class CommitUnanswered extends Error {
  override readonly name = 'CommitUnanswered';
  /** `pg_xact_status` knows the transaction by it. */
  readonly transactionId: string;
  /** When the server started: another one may know another transaction by this id. */
  readonly serverStart: string;

  constructor(transactionId: string, serverStart: string, cause: unknown) {
    super('the connection was lost before COMMIT was answered', { cause });
    this.transactionId = transactionId;
    this.serverStart = serverStart;
  }
}

/**
 * `overtaken`: a concurrent transaction won, and the same one may succeed when it is repeated. `lost`: no connection, or none any
 * more. `refuses`: the server answers, and takes no such work at present.
 */
type Fault = 'overtaken' | 'lost' | 'refuses' | 'full' | 'unexpected';

/** https://www.postgresql.org/docs/current/errcodes-appendix.html lists these; codes stand before their classes, and the first that fits counts. */
const faults: readonly (readonly [prefix: string, Fault])[] = [
  ['40001', 'overtaken'],
  ['40P01', 'overtaken'],
  ['53100', 'full'],
  ['53', 'refuses'],
  ['25006', 'refuses'], // read-only: a standby
  ['25P03', 'lost'], // the transaction was idle for too long
  ['28', 'refuses'],
  ['3D000', 'refuses'],
  ['55P03', 'refuses'], // a lock was waited for too long
  ['57014', 'refuses'], // a statement took too long
  ['57P', 'lost'],
  ['08', 'lost'],
];

export function faultOf(error: unknown): Fault {
  if (error instanceof ConnectionLost || error instanceof CommitUnanswered) return 'lost';
  const code = codeOf(error);
  return faults.find(([prefix]) => code?.startsWith(prefix))?.[1] ?? 'unexpected';
}

const codeOf = (error: unknown): string | undefined => (error instanceof DatabaseError ? error.code : undefined);

/** After an error of this severity the transaction was rolled back; a fatal one ends the connection and leaves that open. */
export const wasRolledBack = (error: unknown): boolean => error instanceof DatabaseError && error.severity === 'ERROR';

/** Says why a start fails, for the operator; what the driver and the server say holds no password. */
export function openFaultOf(error: unknown): string {
  const failure = error instanceof ConnectionLost ? error.cause : error;
  if (failure instanceof AggregateError) return failure.errors.map(openFaultOf).join(', ');
  return failure instanceof Error ? failure.message : String(failure);
}

/** Makes the error for where repeating did not help. */
export function refusalOf(error: unknown): LancegateError {
  const internal = { catalog: 'the database failed', sqlState: codeOf(error) };
  if (error instanceof CommitUnanswered)
    return new LancegateError('Internal', 'The catalog failed.', {
      cause: error,
      internal: { catalog: 'the connection was lost while a transaction was committed; whether it was is not known' },
    });
  switch (faultOf(error)) {
    case 'overtaken':
      return new LancegateError('SlowDown', 'too many requests change the catalog at once; nothing was written', {
        cause: error,
        internal,
        retryAfterSeconds: 1,
      });
    case 'lost':
    case 'refuses':
      return new LancegateError('CatalogUnavailable', 'the catalog is not available; nothing was written', {
        cause: error,
        internal,
        // A failover or a restart of the database takes that long at least.
        retryAfterSeconds: 2,
      });
    case 'full':
      return storageFull(error, internal);
    case 'unexpected':
      return new LancegateError('Internal', 'The catalog failed.', { cause: error, internal });
  }
}
