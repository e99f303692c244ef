/**
 * An error becomes an answer here and nowhere else. The body is the union of what the two families of clients parse: `type` to
 * `instance`, and the namespace specification's `error` and `code` (docs/protocol.md, "Errors").
 */
import Type, { type Static } from 'typebox';
import { challengeFor } from '../auth/challenge.ts';
import { type ErrorEntry, invalidInput, LancegateError } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';

type Status = ErrorEntry['status'];

export const statusTitles: Readonly<Record<Status, { readonly type: string; readonly title: string }>> = {
  400: { type: '/errors/bad-request', title: 'Malformed request' },
  401: { type: '/errors/unauthorized-request', title: 'No valid authentication credentials for the operation' },
  403: { type: '/errors/forbidden-request', title: 'Not authorized to make this request' },
  404: { type: '/errors/not-found-error', title: 'Not found Error' },
  405: { type: '/errors/method-not-allowed', title: 'The path does not have this method' },
  406: { type: '/errors/unsupported-operation', title: 'The server does not support this operation' },
  409: { type: '/errors/conflict', title: 'The namespace has been concurrently modified' },
  410: { type: '/errors/gone', title: 'What was asked for is not there any more' },
  413: { type: '/errors/content-too-large', title: 'The body is too large' },
  421: { type: '/errors/misdirected-request', title: 'Another replica answers this request' },
  431: { type: '/errors/head-too-large', title: 'The request line and the headers are too large' },
  500: { type: '/errors/server-error', title: 'Internal Server Error' },
  503: { type: '/errors/service-unavailable', title: 'Slow down' },
};

export const ErrorBody = Type.Object({
  type: Type.String(),
  title: Type.String(),
  status: Type.Integer(),
  /** Always empty: the cause is in `error`, the one text that every client displays. */
  detail: Type.Literal(''),
  instance: Type.String(),
  error: Type.String(),
  code: Type.Integer({ minimum: 0, maximum: 23 }),
});

export interface RenderedError {
  readonly status: Status;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Static<typeof ErrorBody>>;
}

interface FailedRequest {
  readonly requestId: string;
  /** The client asked for this path; its query is left out. */
  readonly instance: string;
  /** A LanceDB SDK sent the request. */
  readonly isLanceDb: boolean;
  readonly isCreate: boolean;
}

export function renderError(error: LancegateError, request: FailedRequest): RenderedError {
  const status = statusOf(error, request);
  const { code } = error.entry;
  const text =
    error.kind === 'Internal' ? `internal error; the log has it under request ${request.requestId}` : error.message;
  return {
    status,
    headers: headersOf(error, status),
    body: { ...statusTitles[status], status, detail: '', instance: request.instance, error: text, code },
  };
}

/**
 * LanceDB's SDKs repeat most requests that are answered 409, and then show only that they gave up. And of a create they know
 * "exists already" as a 400 whose text says so, and then open the table (docs/protocol.md).
 */
function statusOf({ kind, entry }: LancegateError, { isLanceDb, isCreate }: FailedRequest): Status {
  const isShownAt400 =
    kind === 'TableIndexAlreadyExists' ||
    kind === 'TableTagAlreadyExists' ||
    (kind === 'TableAlreadyExists' && isCreate);
  return isLanceDb && isShownAt400 ? 400 : entry.status;
}

function headersOf(error: LancegateError, status: Status): Readonly<Record<string, string>> {
  // A 503 has the header even where its error names no time.
  const retryAfter = error.retryAfterSeconds ?? (status === 503 ? 1 : undefined);
  return {
    ...(retryAfter === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfter)) }),
    ...(status === 401 || status === 403 ? { 'www-authenticate': challengeFor(error) } : {}),
  };
}

/** What Fastify refuses before a route is reached, in our words. */
const frameworkTexts: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'the percent-encoding of the path is broken',
  FST_ERR_MAX_PARAM_LENGTH: 'a part of the path is too long',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'the Content-Type header is malformed',
};

/** Makes one of ours of anything thrown. What is unknown is a defect: `Internal`, which keeps the original for the log. */
export function asLancegateError(error: unknown): LancegateError {
  if (error instanceof LancegateError) return error;
  const { code, statusCode } = isObject(error) ? error : {};
  const isFrameworks = typeof code === 'string' && code.startsWith('FST_ERR_');
  if (isFrameworks && typeof statusCode === 'number' && statusCode < 500) {
    return invalidInput(frameworkTexts[code] ?? 'the request is malformed', error);
  }
  return new LancegateError('Internal', 'unexpected error', { cause: error });
}
