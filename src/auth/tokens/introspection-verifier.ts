/**
 * Opaque tokens: the authorization server says what they are (RFC 7662).
 *
 * An answer is valid here for a short while, so a revoked token lives on for `cacheForMs` at most. Look-ups of one token
 * share one request, and concurrent look-ups have a bound: made-up tokens cannot turn this service into a flood on the
 * authorization server. It never gets an API key. Fails closed: `IssuerUnavailable` without an answer, `SlowDown` beyond the
 * bound.
 */
import * as oauth from 'oauth4webapi';
import { type Clock, ExpiringCache } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { invalidToken } from '../challenge.ts';
import { looksLikeApiKey } from './api-keys.ts';
import {
  type IssuerLocation,
  type IssuerMetadata,
  issuerMetadata,
  requestOptions,
  requireSecure,
} from './issuer-metadata.ts';
import { principalFrom } from './jwt.ts';
import type { Credential, Verifier } from './verifier.ts';

/** With an `endpoint` the service sends the `issuer` no request; it only names the issuer of principals. */
export interface IntrospectionSettings extends IssuerLocation {
  readonly groupClaims: readonly string[];
  /** Where it is undefined, the issuer's metadata name it. */
  readonly endpoint: string | undefined;
  readonly clientId: string;
  readonly clientSecret: string;
  /** One must be in the answer's `aud`. Empty accepts every token: only where the server issues for this service alone. */
  readonly audiences: readonly string[];
  /** false forgives an answer without `aud`, which RFC 7662 allows. */
  readonly audienceRequired: boolean;
  readonly cacheForMs: number;
}

export const introspectionDefaults = {
  groupClaims: ['groups'],
  allowHttp: false,
  timeoutMs: 5_000,
  endpoint: undefined,
  audienceRequired: true,
  cacheForMs: 30_000,
} as const satisfies Partial<IntrospectionSettings>;

const jwtForm = /^[\w-]+\.[\w-]+\.[\w-]*$/;

type Judgement = { readonly principal: Principal } | { readonly refusal: string };

export class IntrospectionVerifier implements Verifier {
  readonly #settings: IntrospectionSettings;
  readonly #clock: Clock;
  readonly #metadata: () => Promise<IssuerMetadata>;
  readonly #client: oauth.Client;
  readonly #authentication: oauth.ClientAuth;
  readonly #answers: ExpiringCache<Judgement>;
  readonly #lookUps = new Map<string, Promise<Judgement>>();

  /** `AccessSetupError` for an endpoint whose answers could be forged on the way. */
  constructor(settings: IntrospectionSettings, clock: Clock, logger: Pick<Logger, 'warn'>) {
    this.#settings = settings;
    this.#clock = clock;
    this.#metadata = introspectionMetadata(settings, clock, logger);
    this.#client = { client_id: settings.clientId };
    this.#authentication = oauth.ClientSecretBasic(settings.clientSecret);
    this.#answers = new ExpiringCache(10_000, clock);
  }

  async verify(credential: Credential): Promise<Principal | undefined> {
    if (credential.kind !== 'bearer') return undefined;
    const { secret: token, digest } = credential;
    if (looksLikeApiKey(token) || jwtForm.test(token)) return undefined;
    const answer = this.#answers.get(digest) ?? (await this.#lookUp(digest, token));
    if ('refusal' in answer) throw invalidToken(answer.refusal);
    return answer.principal;
  }

  #lookUp(digest: string, token: string): Promise<Judgement> {
    const underWay = this.#lookUps.get(digest);
    if (underWay !== undefined) return underWay;
    if (this.#lookUps.size >= 64) {
      throw new LancegateError('SlowDown', 'Too many unknown tokens are being looked up.', { retryAfterSeconds: 1 });
    }
    const lookUp = this.#ask(digest, token).finally(() => this.#lookUps.delete(digest));
    this.#lookUps.set(digest, lookUp);
    return lookUp;
  }

  async #ask(digest: string, token: string): Promise<Judgement> {
    const response = await this.#request(token);
    const answer = this.#judge(response);
    this.#answers.set(digest, answer, this.#validUntilMs(answer, response));
    return answer;
  }

  /** The server's clock decides whether a token is active; the clock of this service only ends the cached answer. */
  #validUntilMs(answer: Judgement, { exp }: oauth.IntrospectionResponse): number {
    const nowMs = this.#clock.nowMs();
    // Spares the server a client that insists; short, because a client may send a token just before it is valid.
    if ('refusal' in answer) return nowMs + 2_000;
    const untilMs = nowMs + this.#settings.cacheForMs;
    return typeof exp === 'number' ? Math.min(untilMs, exp * 1_000) : untilMs;
  }

  /** `unsupported_token_type` is how some servers answer for tokens they do not introspect, instead of `active`. */
  async #request(token: string): Promise<oauth.IntrospectionResponse> {
    try {
      const metadata = await this.#metadata();
      const response = await oauth.introspectionRequest(metadata, this.#client, this.#authentication, token, {
        ...requestOptions(this.#settings.timeoutMs),
        additionalParameters: { token_type_hint: 'access_token' },
      });
      return await oauth.processIntrospectionResponse(metadata, this.#client, response);
    } catch (error) {
      if (error instanceof oauth.ResponseBodyError && error.error === 'unsupported_token_type') {
        return { active: false };
      }
      throw unavailable(error);
    }
  }

  #judge(response: oauth.IntrospectionResponse): Judgement {
    if (!response.active) return { refusal: 'The token is not active.' };
    if (!isAccessToken(response)) return { refusal: 'The token is not an access token.' };
    if (!this.#isForUs(response.aud)) return { refusal: 'The claim aud of the token does not fit.' };
    return { principal: principalFrom(response, this.#settings.issuer, this.#settings.groupClaims) };
  }

  #isForUs(stated: string | readonly string[] | undefined): boolean {
    const { audiences, audienceRequired } = this.#settings;
    if (audiences.length === 0) return true;
    if (stated === undefined) return !audienceRequired;
    return [stated].flat().some((audience) => audiences.includes(audience));
  }
}

/** Some servers introspect refresh tokens too: seen by another `token_type`, or by Hydra's `token_use`. */
function isAccessToken({ token_type: type = 'bearer', token_use: use }: oauth.IntrospectionResponse): boolean {
  return use !== 'refresh_token' && ['bearer', 'access_token'].includes(String(type).toLowerCase());
}

function introspectionMetadata(
  settings: IntrospectionSettings,
  clock: Clock,
  logger: Pick<Logger, 'warn'>,
): () => Promise<IssuerMetadata> {
  const { issuer, endpoint, allowHttp } = settings;
  if (endpoint !== undefined) {
    requireSecure(endpoint, allowHttp, 'introspection endpoint');
    return async () => ({ issuer, introspection_endpoint: endpoint });
  }
  const document = issuerMetadata(settings, clock, logger);
  return async () => {
    const metadata = await document.current();
    requireSecure(metadata.introspection_endpoint ?? '', allowHttp, `introspection_endpoint of ${issuer}`);
    return metadata;
  };
}

const unavailable = (cause: unknown): LancegateError =>
  cause instanceof LancegateError
    ? cause
    : new LancegateError('IssuerUnavailable', 'The authorization server does not answer.', {
        cause,
        retryAfterSeconds: 1,
      });
