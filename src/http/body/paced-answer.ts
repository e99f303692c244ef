/**
 * The bytes of an answer that is computed while it is sent: they wait for the client, and the client may not let them wait for
 * ever, since it holds what computes them. The rule is that of uploads: not long for any part, and not slowly in all.
 */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { slowestBytesPerMs } from './request-body.ts';

interface PacedParts {
  readonly response: ServerResponse;
  readonly clock: Clock;
  /** The longest wait for the client, once and, without enough bytes for it, in all. */
  readonly idleTimeoutMs: number;
}

/** A client takes so much at least between two looks at whether it takes anything. */
const partBytes = 64 * 1024;

export class PacedAnswer {
  readonly #parts: PacedParts;
  #sentBytes = 0;
  #waitedMs = 0;
  #waitingSinceMs: number | undefined;
  #end: { readonly error: unknown } | undefined;
  #wake: () => void = () => undefined;

  constructor(parts: PacedParts) {
    this.#parts = parts;
    const { response } = parts;
    response.once('close', () => this.end(invalidInput('the client closed the connection before it had the answer')));
    // A write to a connection that has ended fails; `end` has the reason.
    response.on('error', () => undefined);
  }

  /** What the client, or the system on its behalf, has taken. */
  get sentBytes(): number {
    return this.#sentBytes;
  }

  /** How long the answer has waited for its client so far. */
  get waitedMs(): number {
    const { clock } = this.#parts;
    return this.#waitedMs + (this.#waitingSinceMs === undefined ? 0 : clock.nowMs() - this.#waitingSinceMs);
  }

  /** Ends the answer, also while it waits for its client; `send` rejects with this error then. */
  end(error: unknown): void {
    this.#end ??= { error };
    this.#parts.response.destroy();
    this.#wake();
  }

  /** One part after the other: asks for each when the one before has left. `begin` is called before the first. */
  async send(parts: AsyncIterable<Uint8Array>, begin: () => void): Promise<void> {
    let hasBegun = false;
    for await (const bytes of parts) {
      if (!hasBegun) begin();
      hasBegun = true;
      for (let at = 0; at < bytes.length; at += partBytes) await this.#send(bytes.subarray(at, at + partBytes));
    }
  }

  async #send(part: Uint8Array): Promise<void> {
    const { clock, idleTimeoutMs } = this.#parts;
    this.#requireOpen();
    this.#waitingSinceMs = clock.nowMs();
    const cancel = clock.schedule(idleTimeoutMs, () => this.end(tooSlow()));
    await this.#write(part);
    cancel();
    this.#waitedMs = this.waitedMs;
    this.#waitingSinceMs = undefined;
    this.#requireOpen();
    this.#sentBytes += part.length;
    if (this.#waitedMs > idleTimeoutMs && this.#sentBytes < this.#waitedMs * slowestBytesPerMs) throw tooSlow();
  }

  #requireOpen(): void {
    if (this.#end !== undefined) throw this.#end.error;
  }

  /** Resolves when they have left, or never will: then the answer has ended. */
  #write(part: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#parts.response.write(part, (error) => {
        if (error != null) this.end(error);
        resolve();
      });
    });
  }
}

const tooSlow = (): LancegateError => new LancegateError('TimedOut', 'the client takes the answer too slowly');
