import type { ServerResponse } from 'node:http';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { Principal, RequestScope } from '../kernel/request-scope.ts';
import type { Timeout } from '../wire/query-parameters.ts';

interface ScopeParts {
  readonly requestId: string;
  readonly principal: Principal;
  readonly timeout: Timeout;
  /** How long the service has waited for the client. */
  readonly waitedMs: () => number;
  readonly clock: Clock;
  readonly response: ServerResponse;
}

/**
 * A request's scope, tied to its connection. Fastify's own `request.signal` will not do: it aborts as soon as the body
 * has been read, with the client still there. Once the answer is on its way, neither the clock nor the client matters.
 *
 * A deadline that the client has not chosen moves by the time that the service waits for the body, or for the client to take a
 * long answer: an honest upload of an hour is no failure. `RequestBody` and `PacedAnswer` end those that stall or trickle.
 */
export class ClientScope implements RequestScope {
  readonly requestId: string;
  readonly principal: Principal;
  readonly #controller = new AbortController();
  readonly #parts: Pick<ScopeParts, 'timeout' | 'waitedMs' | 'clock'>;
  readonly #startMs: number;
  readonly #stopWatching: () => void;

  constructor({ requestId, principal, response, ...parts }: ScopeParts) {
    const { clock, timeout } = parts;
    this.requestId = requestId;
    this.principal = principal;
    this.#parts = parts;
    this.#startMs = clock.nowMs();
    const onClose = (): void =>
      this.#controller.abort(invalidInput('the client closed the connection before it was answered'));
    const onTime = (): void => {
      const leftMs = this.remainingMs();
      if (leftMs > 0) cancelTimer = clock.schedule(leftMs, onTime);
      else
        this.#controller.abort(
          new LancegateError(
            'TimedOut',
            `the request was not done within its ${timeout.timeoutMs} ms; nothing was written`,
          ),
        );
    };
    let cancelTimer = clock.schedule(timeout.timeoutMs, onTime);
    response.once('close', onClose);
    this.#stopWatching = () => {
      cancelTimer();
      response.off('close', onClose);
    };
    if (response.destroyed) onClose();
    if (timeout.timeoutMs === 0) onTime();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  remainingMs(): number {
    const { clock, timeout, waitedMs } = this.#parts;
    const allowedMs = Math.min(timeout.timeoutMs + waitedMs(), timeout.withBodyMs);
    return Math.max(0, this.#startMs + allowedMs - clock.nowMs());
  }

  /** The answer is decided: ends the timer, and no longer watches the connection. */
  close(): void {
    this.#stopWatching();
  }
}
