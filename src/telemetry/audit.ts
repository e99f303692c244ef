/**
 * The audit record: who asked what of which table, what the policy said, and what came of it. One for every request, also for a
 * refused one. docs/audit.md describes its fields; a new field may come, and none changes its name or meaning.
 *
 * Every text in it comes from a list of ours or is bounded, and no row, predicate, token or key is ever in it.
 */
import { hash } from 'node:crypto';
import { escapeDeceptive } from './escape-deceptive.ts';
import type { Logger } from './logger.ts';
import { redactText } from './redact.ts';

/** `not asked`: the request ended before the policy was asked, or names nothing that a policy is about. */
export type Decision = 'allowed' | 'denied' | 'unauthenticated' | 'not asked';

/** Of the object that was asked for and of what happened to it; what is not known is absent. */
export interface AuditFacts {
  /** How: `overwrite`, or the parts of a merge such as `update+insert`. */
  readonly mode?: string | undefined;
  /** That is to be registered, as the request names it. */
  readonly location?: string | undefined;
  /** Of the table, as the answer names it. */
  readonly version?: number | undefined;
  readonly insertedRows?: number | undefined;
  readonly updatedRows?: number | undefined;
  readonly deletedRows?: number | undefined;
  readonly transactionId?: string | undefined;
  /** With the namespace that held them. */
  readonly droppedTables?: number | undefined;
  /** The facts are those of an earlier request with the same Idempotency-Key; this one did nothing. */
  readonly isReplay?: true | undefined;
}

export interface AuditRecord extends AuditFacts {
  readonly requestId: string;
  readonly method: string;
  /** The pattern of the path; `none` where no route has it. */
  readonly route: string;
  /** undefined where the client left before anything was decided. */
  readonly status: number | undefined;
  readonly durationMs: number;
  readonly receivedBytes: number;
  readonly subject: string | undefined;
  readonly issuer: string | undefined;
  /** Of the API key: its id, never its secret. */
  readonly keyId: string | undefined;
  readonly address: string;
  /** The trusted proxy that has reported the address. */
  readonly proxy: string | undefined;
  readonly decision: Decision;
  /** All that the policy was asked for; where it denied, the last is what it denied. */
  readonly actions: readonly string[] | undefined;
  /** Ids as policies have them. */
  readonly namespace: string | undefined;
  readonly table: string | undefined;
  readonly branch: string | undefined;
  /** The name of the error, from the catalogue. */
  readonly refusal: string | undefined;
  /** Before there was an answer. */
  readonly clientLeft: true | undefined;
}

/** Where records go. `requestEnded` never throws and never waits. */
export interface Audit {
  requestEnded(record: AuditRecord): void;
  /** The operator may have moved the file of the records. */
  reopen?(): void;
}

/** Records are lines of the ordinary log: the line that each request has there says more. */
export class AuditInLog implements Audit {
  readonly #logger: Pick<Logger, 'info'>;

  constructor(logger: Pick<Logger, 'info'>) {
    this.#logger = logger;
  }

  requestEnded(record: AuditRecord): void {
    this.#logger.info({ audit: formatVersion, ...bounded(record) }, 'request');
  }
}

/** Where the log has no audit, each request has a short line there. */
export function logRequest(logger: Pick<Logger, 'info'>, record: AuditRecord): void {
  const { requestId, method, route, status, durationMs, receivedBytes, refusal, clientLeft } = record;
  const subject = record.subject === undefined ? undefined : clipped(record.subject);
  logger.info({ requestId, method, route, status, durationMs, receivedBytes, subject, refusal, clientLeft }, 'request');
}

/** The number goes up when a program that reads the records must change. */
const formatVersion = 1;

/** `lostBefore`: records since the last one that were lost because they could not be written. */
export function auditLine(record: AuditRecord, nowMs: number, lostBefore: number): string {
  const time = new Date(nowMs).toISOString();
  const lost = lostBefore === 0 ? undefined : lostBefore;
  const text = JSON.stringify({ audit: formatVersion, time, ...bounded(record), lostBefore: lost });
  return `${escapeDeceptive(redactText(text))}\n`;
}

function bounded(record: AuditRecord): AuditRecord {
  const { subject, issuer, namespace, table, branch, location } = record;
  const texts = { subject, issuer, namespace, table, branch, location };
  const tooLong = Object.entries(texts).filter(([, text]) => text !== undefined && text.length > longestText);
  if (tooLong.length === 0) return record;
  return { ...record, ...Object.fromEntries(tooLong.map(([name, text]) => [name, clipped(text!)])) };
}

/** Of what clients and issuers choose, in UTF-16 units. A name has up to 255 bytes, an id those of several. */
const longestText = 1_024;
const digestLength = 16;

/** Two texts that begin alike stay two: the end is a part of the SHA-256 of the whole. */
function clipped(text: string): string {
  if (text.length <= longestText) return text;
  const digest = hash('sha256', text, 'hex').slice(0, digestLength);
  return `${text.slice(0, longestText - digestLength - 1).toWellFormed()}…${digest}`;
}
