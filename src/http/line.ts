/**
 * Runs what is added a few at a time, so many in each turn of the event loop. In between, the sockets are looked at. Each
 * lane keeps its order, and lanes take turns one by one: who comes in a lane with few does not wait for a long one (P10).
 * It grows with its callers; the connections of the server bound them.
 */
export class Line {
  readonly #perTurn: number;
  /** In the order of their turns. None is empty. */
  readonly #lanes = new Map<string, (() => void)[]>();
  #isMoving = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  add(lane: string, run: () => void): void {
    const waiting = this.#lanes.get(lane);
    if (waiting === undefined) this.#lanes.set(lane, [run]);
    else waiting.push(run);
    if (this.#isMoving) return;
    this.#isMoving = true;
    setImmediate(() => this.#move());
  }

  #move(): void {
    const next: (() => void)[] = [];
    for (const [lane, waiting] of this.#turns()) {
      const run = waiting.shift();
      if (run !== undefined) next.push(run);
      this.#lanes.delete(lane);
      if (waiting.length > 0) this.#lanes.set(lane, waiting);
    }
    this.#isMoving = this.#lanes.size > 0;
    if (this.#isMoving) setImmediate(() => this.#move());
    for (const run of next) run();
  }

  /** A lane that is put back at the end while this runs has another turn. */
  *#turns() {
    let left = this.#perTurn;
    for (const lane of this.#lanes) {
      if (left === 0) return;
      left -= 1;
      yield lane;
    }
  }
}
