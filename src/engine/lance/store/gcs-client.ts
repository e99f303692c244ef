import { setTimeout } from 'node:timers/promises';
import { storageUnavailable } from '../../../kernel/errors.ts';
import { firstOf } from '../../../kernel/request-scope.ts';
import type { GcsCredentials } from './gcs-credentials.ts';
import { asking } from './object-store.ts';
import { mustBeSignedWithin, NothingSent } from './standstill.ts';
import { StoreUnusable } from './store-unusable.ts';

const firstPauseMs = 100;
const mostReason = 300;

export interface GcsRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The URL itself lets in who has it. */
  readonly isUrlSecret?: boolean;
}

interface GcsAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

/** What the store said instead of what it was asked for. */
class Refused extends Error {
  readonly status: number;

  constructor({ status, body }: GcsAnswer) {
    super(`${status} ${reasonIn(body)}`);
    this.status = status;
  }
}

/** Requests to the JSON API of Google's store. All throw `StorageUnavailable`. */
export class GcsClient {
  readonly #credentials: GcsCredentials;
  readonly #timeoutMs: number;

  constructor(credentials: GcsCredentials, timeoutMs: number = asking.timeoutMs) {
    this.#credentials = credentials;
    this.#timeoutMs = timeoutMs;
  }

  /** Repeated where that may help. Returns an answer that has one of these statuses. */
  async ask(request: GcsRequest, ...statuses: readonly number[]): Promise<GcsAnswer> {
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#attempt(request).catch((error: unknown) => {
        if (attempt === asking.attempts || (error instanceof NothingSent && error.cause instanceof StoreUnusable))
          throw failed(error);
      });
      if (answer !== undefined && isAmong(statuses, answer)) return answer;
      if (answer !== undefined && (!isPassing(answer.status) || attempt === asking.attempts)) throw refused(answer);
      await setTimeout(firstPauseMs * 2 ** attempt);
    }
  }

  /** It is sent once. undefined where no answer says what became of it. */
  async askOnce(request: GcsRequest, ...statuses: readonly number[]): Promise<GcsAnswer | undefined> {
    const answer = await this.#attempt(request).catch((error: unknown) => {
      if (error instanceof NothingSent) throw failed(error);
    });
    if (answer === undefined || isPassing(answer.status)) return undefined;
    if (isAmong(statuses, answer)) return answer;
    throw refused(answer);
  }

  /** As `ask`, for an answer in JSON. */
  async askJson<Answer>(request: GcsRequest): Promise<Answer> {
    const answer = await this.ask(request, 200);
    try {
      return JSON.parse(answer.body.toString()) as Answer;
    } catch {
      throw refused(answer);
    }
  }

  async #attempt({ method, url, headers, body, isUrlSecret = false }: GcsRequest): Promise<GcsAnswer> {
    const requireInTime = mustBeSignedWithin(this.#timeoutMs);
    const signal = AbortSignal.timeout(this.#timeoutMs);
    const all = isUrlSecret ? new Headers() : await this.#authorized(signal);
    for (const [name, value] of Object.entries(headers ?? {})) all.set(name, value);
    requireInTime();
    // `manual`: a part that has arrived is answered as a redirect, and no other is followed.
    const answer = await fetch(url, {
      method,
      headers: all,
      body: (body as Uint8Array<ArrayBuffer>) ?? null,
      signal,
      redirect: 'manual',
    });
    return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
  }

  async #authorized(signal: AbortSignal): Promise<Headers> {
    try {
      return new Headers(await firstOf(this.#credentials.headers(), signal));
    } catch (error) {
      const said = error instanceof Error ? error.message : 'there is no token';
      const message = signal.aborted ? 'Google has not given out a token in time' : said;
      throw new NothingSent(message, { cause: error });
    }
  }
}

/** A timeout, a conflict with another request, and too many requests have these. */
const passingStatus: ReadonlySet<number> = new Set([408, 409, 429]);

const isPassing = (status: number): boolean => status >= 500 || passingStatus.has(status);

/** JSON of Google, or any text. */
function reasonIn(body: Buffer): string {
  const text = body.toString('utf8', 0, 4_096);
  const [, message = text] = /"message":\s*"([^"]*)"/.exec(text) ?? [];
  return message.slice(0, mostReason);
}

const isAmong = (statuses: readonly number[], answer: GcsAnswer): boolean =>
  statuses.includes(answer.status) && !isWithoutBucket(answer);

/** Asked for one object, a store may say so of its bucket. */
const isWithoutBucket = ({ status, body }: GcsAnswer): boolean =>
  status === 404 && /bucket does not exist/i.test(body.toString('utf8', 0, 4_096));

/** Why an answer is not what was asked for. */
export function refused(answer: GcsAnswer): Error {
  if (isWithoutBucket(answer)) return failed(new Refused(answer), 'the object store has no such bucket');
  const isDenied = answer.status === 401 || answer.status === 403;
  return failed(new Refused(answer), isDenied ? 'the object store denies access' : undefined);
}

const failed = (cause: unknown, text = 'the object store does not do what it is asked'): Error =>
  storageUnavailable(text, cause, { status: cause instanceof Refused ? cause.status : undefined });
