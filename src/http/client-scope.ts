import type { ServerResponse } from 'node:http';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/principal.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Timeout } from '../wire/deadline.ts';

interface ScopeParts {
  readonly requestId: string;
  readonly principal: Principal;
  readonly timeout: Timeout;
  /** How long the service has waited for the body so far. */
  readonly waitedForBodyMs: () => number;
  readonly clock: Clock;
  readonly response: ServerResponse;
}

/**
 * A request's scope, tied to its connection. Fastify's own `request.signal` will not do: it aborts as soon as the body
 * has been read, with the client still there. Once the answer is on its way, neither the clock nor the client matters.
 *
 * A deadline that the client has not chosen is put off by the time its body takes to come: an honest upload of an hour is no
 * failure. `RequestBody` ends those that stall or trickle.
 */
export class ClientScope implements RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly #controller = new AbortController();
  readonly #parts: Pick<ScopeParts, 'timeout' | 'waitedForBodyMs' | 'clock'>;
  readonly #startMs: number;
  readonly #stopWatching: () => void;

  constructor({ requestId, principal, response, ...parts }: ScopeParts) {
    const { clock, timeout } = parts;
    this.requestId = requestId;
    this.principal = principal;
    this.#parts = parts;
    this.#startMs = clock.nowMs();
    const onClose = (): void => this.#controller.abort(clientLeft());
    const onTime = (): void => {
      const leftMs = this.remainingMs();
      if (leftMs > 0) cancelTimer = clock.schedule(leftMs, onTime);
      else this.#controller.abort(timedOut(timeout.timeoutMs));
    };
    let cancelTimer = clock.schedule(timeout.timeoutMs, onTime);
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
    const { clock, timeout, waitedForBodyMs } = this.#parts;
    const allowedMs = Math.min(timeout.timeoutMs + waitedForBodyMs(), timeout.withBodyMs);
    return Math.max(0, this.#startMs + allowedMs - clock.nowMs());
  }

  /** The answer is decided: lets go of timer and connection. */
  close(): void {
    this.#stopWatching();
  }
}

const clientLeft = (): LancegateError => invalidInput('the client closed the connection before it was answered');

const timedOut = (timeoutMs: number): LancegateError =>
  new LancegateError('TimedOut', `the request was not done within its ${timeoutMs} ms; nothing was written`);
