/**
 * The audit record: the principal, the action, the table, the policy's decision and the result. One for every request, also for
 * a refused one. docs/audit.md describes its fields; fields may be added, but none changes its name or meaning.
 *
 * Every text in it comes from a fixed list or is bounded; it never holds a row, a predicate, a token or a key.
 */
import { hash } from 'node:crypto';
import { escapeDeceptive, type Logger } from './logger.ts';
import { redactText } from './redact.ts';

/** `not asked`: the request ended before a policy decision, or its route needs none. */
type Decision = 'allowed' | 'denied' | 'unauthenticated' | 'not asked';

/** What is not known of the request and its result is absent. */
export interface AuditFacts {
  /** It says how: `overwrite`, or the parts of a merge such as `update+insert`. */
  readonly mode?: string | undefined;
  /** A `register` request has it, and a `clone` that of its source, as the client wrote it. */
  readonly location?: string | undefined;
  /** The answer says that the table is at it. */
  readonly version?: number | undefined;
  readonly tag?: string | undefined;
  /** The request makes the table of this id, or renames to it. */
  readonly newTable?: string | undefined;
  /** The result of a query has so many. */
  readonly readRows?: number | undefined;
  /** The client has taken so many of a result that is sent while it is computed. */
  readonly sentBytes?: number | undefined;
  readonly insertedRows?: number | undefined;
  readonly updatedRows?: number | undefined;
  readonly deletedRows?: number | undefined;
  /** Rows of a merge that were passed over by its rules. */
  readonly duplicateRows?: number | undefined;
  readonly staleRows?: number | undefined;
  readonly invalidRows?: number | undefined;
  readonly transactionId?: string | undefined;
  /** The replica of this id has carried the request out and has a record of its own. */
  readonly forwardedTo?: string | undefined;
  /** How many tables were dropped with their namespace. */
  readonly droppedTables?: number | undefined;
  readonly deletedVersions?: number | undefined;
  /** Fields and query parameters that are not known here and were passed over. */
  readonly ignoredFields?: readonly string[] | undefined;
  /** The facts are those of an earlier request with the same Idempotency-Key; this one did nothing. */
  readonly isReplay?: true | undefined;
  /** It was asked what a write would do, and none was made. */
  readonly isDryRun?: true | undefined;
}

export interface AuditRecord extends AuditFacts {
  readonly requestId: string;
  readonly method: string;
  /** It is the pattern of the path, or `none` where no route has it. */
  readonly route: string;
  /** undefined if the client left before anything was decided. */
  readonly status: number | undefined;
  readonly durationMs: number;
  readonly receivedBytes: number;
  readonly subject: string | undefined;
  readonly issuer: string | undefined;
  /** It is the id of the API key, never its secret. */
  readonly keyId: string | undefined;
  /** The replica of this id has authenticated the client and sent the request on. */
  readonly vouchedBy?: string | undefined;
  readonly address: string;
  /** The trusted proxy that reported the address. */
  readonly proxy: string | undefined;
  readonly decision: Decision;
  /** The actions that the policy was asked for; if it denied one, that is the last. */
  readonly actions: readonly string[] | undefined;
  /** Ids as policies have them. */
  readonly namespace: string | undefined;
  readonly table: string | undefined;
  readonly branch: string | undefined;
  /** The catalogue has the error by this name. */
  readonly refusal: string | undefined;
  /** Why a credential was refused; it repeats nothing of it. */
  readonly reason?: string | undefined;
  /** The client left before the answer. */
  readonly clientLeft: true | undefined;
}

/** Records go there. `requestEnded` never throws and never waits. */
export interface Audit {
  requestEnded(record: AuditRecord): void;
  /** The operator may have moved the file of the records. */
  reopen?(): void;
}

/** Adds the record's fields to the log line that each request has. */
export class AuditInLog implements Audit {
  readonly #logger: Pick<Logger, 'info'>;

  constructor(logger: Pick<Logger, 'info'>) {
    this.#logger = logger;
  }

  requestEnded(record: AuditRecord): void {
    this.#logger.info({ audit: formatVersion, ...bounded(record) }, 'request');
  }
}

/** Writes the short log line of a request whose record goes elsewhere. */
export function logRequest(logger: Pick<Logger, 'info'>, record: AuditRecord): void {
  const { requestId, method, route, status, durationMs, receivedBytes, refusal, clientLeft, ignoredFields } = record;
  const subject = record.subject === undefined ? undefined : clipped(record.subject);
  const refused = { refusal, reason: record.reason };
  const fields = { requestId, method, route, status, durationMs, receivedBytes, subject, ...refused, clientLeft };
  logger.info({ ...fields, ignoredFields }, 'request');
}

/** Raised when a program that reads the records must change. */
const formatVersion = 1;

/** `lostBefore` are the records lost since the last written one. */
export function auditLine(record: AuditRecord, nowMs: number, lostBefore: number): string {
  const time = new Date(nowMs).toISOString();
  const lost = lostBefore === 0 ? undefined : lostBefore;
  const text = JSON.stringify({ audit: formatVersion, time, ...bounded(record), lostBefore: lost });
  return `${escapeDeceptive(redactText(text))}\n`;
}

function bounded(record: AuditRecord): AuditRecord {
  const { subject, issuer, namespace, table, branch, location } = record;
  const texts = { subject, issuer, namespace, table, branch, location };
  const tooLong = Object.entries(texts).flatMap(([name, text]) =>
    text !== undefined && text.length > longestText ? [[name, clipped(text)] as const] : [],
  );
  return tooLong.length === 0 ? record : { ...record, ...Object.fromEntries(tooLong) };
}

/** Clients and issuers choose such text; its length is counted in UTF-16 units. A name has up to 255 bytes, an id several names. */
const longestText = 1_024;

/** Keeps texts with the same beginning apart: the end is a part of the SHA-256 of the whole. */
function clipped(text: string): string {
  if (text.length <= longestText) return text;
  const digest = hash('sha256', text, 'hex').slice(0, 16);
  return `${text.slice(0, longestText - digest.length - 1).toWellFormed()}…${digest}`;
}
