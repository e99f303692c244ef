/** Why a request is refused for its credential or by the policy: what a 401 or 403 says in `WWW-Authenticate` (RFC 6750). */
import { LancegateError } from '../kernel/errors.ts';

/** `no_credentials` is ours: RFC 6750 3.1 wants no error code at all where no credential was sent. */
type Refusal = 'no_credentials' | 'invalid_request' | 'invalid_token';

/** `message` reaches the caller and the challenge: it must repeat nothing of the token. */
export class UnauthenticatedError extends LancegateError {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string, internal?: Readonly<Record<string, unknown>>) {
    super('Unauthenticated', message, internal === undefined ? {} : { internal });
    this.refusal = refusal;
  }
}

/** The scope `scope` would have sufficed; undefined if an operator's policies decide. */
export class PermissionDeniedError extends LancegateError {
  readonly scope: string | undefined;

  constructor(message: string, scope: string | undefined) {
    super('PermissionDenied', scope === undefined ? message : `${message}; it needs the scope ${scope}`);
    this.scope = scope;
  }
}

/** `internal` is for the log; it must hold no secret either. */
export const invalidToken = (message: string, internal?: Readonly<Record<string, unknown>>): UnauthenticatedError =>
  new UnauthenticatedError('invalid_token', message, internal);

/** Returns what `WWW-Authenticate` says for an `Unauthenticated` (401) or `PermissionDenied` (403) error. */
export function challengeFor(error: LancegateError): string {
  const code = errorCode(error);
  const realm = 'Bearer realm="lancegate"';
  if (code === undefined) return realm;
  const scope = error instanceof PermissionDeniedError && error.scope !== undefined ? `, scope="${error.scope}"` : '';
  // RFC 6750 section 3 allows printable ASCII without `"` and `\`; a table's name in a message can hold anything.
  return `${realm}, error="${code}", error_description="${error.message.replaceAll('"', "'").replaceAll(/[^\x20-\x5b\x5d-\x7e]/g, '?')}"${scope}`;
}

function errorCode(error: LancegateError): string | undefined {
  if (error.kind === 'PermissionDenied') return 'insufficient_scope';
  if (!(error instanceof UnauthenticatedError) || error.refusal === 'no_credentials') return undefined;
  return error.refusal;
}

/**
 * The access settings, a key file or a policy file cannot be used, so the service must not start. The message is for
 * the operator at the terminal and may name files; it never reaches a caller.
 */
export class AccessSetupError extends Error {
  override readonly name = 'AccessSetupError';
}
