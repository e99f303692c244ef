import type { ServerResponse } from 'node:http';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/principal.ts';
import type { RequestScope } from '../kernel/request-scope.ts';

interface ScopeParts {
  readonly requestId: string;
  readonly principal: Principal;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly response: ServerResponse;
}

/**
 * A request's scope, tied to its connection. Fastify's own `request.signal` will not do: it aborts as soon as the body
 * has been read, with the client still there. Once the answer is on its way, neither the clock nor the client matters.
 */
export class ClientScope implements RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #endMs: number;
  readonly #stopWatching: () => void;

  constructor({ requestId, principal, timeoutMs, clock, response }: ScopeParts) {
    this.requestId = requestId;
    this.principal = principal;
    this.#clock = clock;
    this.#endMs = clock.nowMs() + timeoutMs;
    const onClose = (): void => this.#controller.abort(clientLeft());
    const cancelTimer = clock.schedule(timeoutMs, () => this.#controller.abort(timedOut(timeoutMs)));
    response.once('close', onClose);
    this.#stopWatching = () => {
      cancelTimer();
      response.off('close', onClose);
    };
    if (response.destroyed) onClose();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  remainingMs(): number {
    return Math.max(0, this.#endMs - this.#clock.nowMs());
  }

  /** The answer is decided: lets go of timer and connection. */
  close(): void {
    this.#stopWatching();
  }
}

const clientLeft = (): LancegateError => invalidInput('the client closed the connection before it was answered');

const timedOut = (timeoutMs: number): LancegateError =>
  new LancegateError('TimedOut', `the request was not done within its ${timeoutMs} ms; nothing was written`);
