/** Decides for each request that only the owner of a table can answer whether this replica is the owner, and else sends it on. */
import { Readable } from 'node:stream';
import type { ForwardedAnswer, PreparedRequest } from '../../endpoint/route.ts';
import type { Clock } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { firstOf, onAbort, reasonOf } from '../../kernel/request-scope.ts';
import type { FindsOwner, ReplicaAddress } from '../../table/table-owners.ts';
import { headersIn } from './forwarded-headers.ts';
import { ExchangeEnded, type ForwardedRequest, NotTaken, type ReplicaHop } from './replica-hop.ts';

interface ForwardingDeps {
  readonly owners: FindsOwner;
  readonly others: () => readonly ReplicaAddress[];
  readonly hop: Pick<ReplicaHop, 'forward'>;
  readonly clock: Clock;
}

type NeedsOwner = Pick<PreparedRequest, 'owned' | 'makesTable'>;

export class Forwarding {
  readonly #deps: ForwardingDeps;

  constructor(deps: ForwardingDeps) {
    this.#deps = deps;
  }

  /**
   * Finds the replica that is to answer; undefined for this one. The caller asks once the policy has allowed the request, since
   * what is asked for may be claimed. `NotOwner` for a request that another replica has sent.
   */
  async elsewhere(
    { owned, makesTable = false }: NeedsOwner,
    { principal, signal }: Pick<ForwardedRequest, 'principal' | 'signal'>,
    isRepeated = false,
  ): Promise<ReplicaAddress | undefined> {
    if (owned === undefined) return undefined;
    const isForwarded = principal.vouchedBy !== undefined;
    const question = { mustClaim: isForwarded, mustExist: !makesTable, isRepeated };
    const owner = await firstOf(this.#deps.owners.ownerOf(owned, question), signal);
    if (owner.kind === 'self') return undefined;
    if (isForwarded) throw new LancegateError('NotOwner', 'another replica owns the table; nothing was written');
    return owner;
  }

  /**
   * The answer of the owner; undefined once that is this replica. An owner that does not take the request is asked for again, until
   * another replica has the table or the request's time has run out; `SlowDown` where the same one is the owner past its lease.
   * Throws as `ReplicaHop.forward`, but for `NotTaken`.
   */
  async forward(
    request: ForwardedRequest,
    needed: NeedsOwner,
    first: ReplicaAddress,
  ): Promise<ForwardedAnswer | undefined> {
    const { clock } = this.#deps;
    let owner = first;
    let sinceMs = clock.nowMs();
    for (let isRepeated = false; ; isRepeated = true) {
      const answer = await this.#ask({ ...request, isRepeated }, owner);
      if (!(answer instanceof NotTaken)) return answer;
      await this.#wait(request.signal);
      const next = await this.elsewhere(needed, request, true);
      if (next === undefined) return undefined;
      if (next.id !== owner.id) sinceMs = clock.nowMs();
      // The lease of an owner that died is over by then, and another replica claims the table. So it lives, and is not
      // reached from here.
      else if (clock.nowMs() - sinceMs >= 6_000)
        throw new LancegateError('SlowDown', 'the replica that owns the table cannot be reached; nothing was written', {
          cause: answer,
          retryAfterSeconds: 1,
        });
      owner = next;
    }
  }

  #ask(request: ForwardedRequest, owner: ReplicaAddress): Promise<ForwardedAnswer | NotTaken> {
    return this.#whileAlive(request, owner).catch((error: unknown) => {
      if (error instanceof NotTaken) return error; // the caller asks again, or refuses the request
      throw error;
    });
  }

  /** A process that stands still keeps its connections: what it does not answer ends when it has lost its lease. */
  async #whileAlive(request: ForwardedRequest, owner: ReplicaAddress): Promise<ForwardedAnswer> {
    const { hop, clock, others } = this.#deps;
    const ended = new AbortController();
    let cancel = (): void => undefined;
    const look = (): void => {
      const isAlive = others().some(({ id }) => id === owner.id);
      if (isAlive) watch();
      else ended.abort(new ExchangeEnded('the owner has lost its lease'));
    };
    const watch = (): void => {
      // How often the owner of a request under way is looked for among the living.
      cancel = clock.schedule(1_000, look);
    };
    watch();
    try {
      return await hop.forward({ ...request, signal: AbortSignal.any([request.signal, ended.signal]) }, owner);
    } finally {
      cancel();
    }
  }

  async #wait(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // A table changes hands within a few of these, where its owner hands it over.
    const cancel = this.#deps.clock.schedule(50, resolve);
    const stopListening = onAbort(signal, () => reject(reasonOf(signal)));
    try {
      await promise;
    } finally {
      cancel();
      stopListening();
    }
  }

  /** What the other replicas answer to a request with this body, but for those that cannot be reached, or do not answer soon. */
  async askOthers(request: Omit<ForwardedRequest, 'body'>, body: string): Promise<readonly ForwardedAnswer[]> {
    const late = new AbortController();
    // A look-up needs no answer of a replica that stands still.
    const cancel = this.#deps.clock.schedule(2_000, () => late.abort(new ExchangeEnded('no answer in time')));
    const signal = AbortSignal.any([request.signal, late.signal]);
    const asked = this.#deps.others().map((replica) => {
      return this.#deps.hop.forward(withText({ ...request, signal }, body), replica).catch(() => undefined); // compensated: it has nothing to say
    });
    return (await Promise.all(asked).finally(cancel)).filter((answer) => answer !== undefined);
  }
}

/** Gives the request a body that was received and decoded; none if it is empty. */
export function withText(request: Omit<ForwardedRequest, 'body'>, text: string): ForwardedRequest {
  const bytes = Buffer.from(text);
  const isOfBody = (name: string): boolean => /^content-(encoding|length)$/i.test(name);
  const rawHeaders = [...headersIn(request.rawHeaders)].filter(([name]) => !isOfBody(name)).flat();
  if (bytes.length === 0) return { ...request, rawHeaders, body: undefined };
  rawHeaders.push('content-length', String(bytes.length));
  return { ...request, rawHeaders, body: Readable.from([bytes]) };
}
