/**
 * The access settings, a key file or a policy file cannot be used, so the service must not start. The message is for
 * the operator at the terminal and may name files; it never reaches a caller.
 */
export class AccessSetupError extends Error {
  override readonly name = 'AccessSetupError';
}
