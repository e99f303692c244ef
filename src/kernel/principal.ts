/** Who asks, as a verified credential says. */
export interface Principal {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups: readonly string[];
  /** Where the credential came from: an issuer's URL, `lancegate` for our own tokens, or `api-key`. */
  readonly issuer: string;
  /** Of an API key: its id, which is no secret. */
  readonly keyId?: string;
}

/** Equal for the same principal and for no other: subjects are unique within their issuer only. */
export const principalKey = ({ issuer, subject }: Pick<Principal, 'issuer' | 'subject'>): string =>
  JSON.stringify([issuer, subject]);
