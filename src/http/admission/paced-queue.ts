/**
 * Calls what is added, at most so many in one iteration of the event loop, so that sockets are looked at in between: at once
 * while nothing waits, else in rotation over the lanes, each in its order. So a lane with few does not wait for a long one
 * (P10). The number of callers bounds its size; here, the connections of the server.
 */
export class PacedQueue {
  readonly #perIteration: number;
  /** The lane whose turn is next comes first. None is empty. */
  readonly #lanes = new Map<string, (() => void)[]>();
  /** How many may still be called in this iteration; 0 while any wait. */
  #left: number;
  #isScheduled = false;

  constructor(perIteration: number) {
    this.#perIteration = perIteration;
    this.#left = perIteration;
  }

  add(lane: string, call: () => void): void {
    this.#schedule();
    if (this.#left > 0) {
      this.#left -= 1;
      call();
      return;
    }
    const waiting = this.#lanes.get(lane);
    if (waiting === undefined) this.#lanes.set(lane, [call]);
    else waiting.push(call);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#callNext());
  }

  #callNext(): void {
    this.#isScheduled = false;
    this.#left = this.#perIteration;
    const next: (() => void)[] = [];
    // A lane that is put back at the end while this iterates comes up again.
    for (const [lane, waiting] of this.#lanes) {
      next.push(...waiting.splice(0, 1));
      this.#lanes.delete(lane);
      if (waiting.length > 0) this.#lanes.set(lane, waiting);
      this.#left -= 1;
      if (this.#left === 0) break;
    }
    if (this.#lanes.size > 0) this.#schedule();
    for (const call of next) call();
  }
}
