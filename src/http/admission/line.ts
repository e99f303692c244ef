/**
 * Runs what is added a few at a time, so many in each turn of the event loop: at once as long as nobody waits, and in between
 * the sockets are looked at. Each lane keeps its order, and lanes take turns one by one: who comes in a lane with few does not
 * wait for a long one (P10). It grows with its callers; the connections of the server bound them.
 */
export class Line {
  readonly #perTurn: number;
  /** In the order of their turns. None is empty. */
  readonly #lanes = new Map<string, (() => void)[]>();
  /** How many more may run before the sockets are looked at again; none while somebody waits. */
  #left: number;
  #isTurnDue = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  add(lane: string, run: () => void): void {
    this.#takeTurn();
    if (this.#left === 0) {
      this.#wait(lane, run);
      return;
    }
    this.#left -= 1;
    run();
  }

  #wait(lane: string, run: () => void): void {
    const waiting = this.#lanes.get(lane);
    if (waiting === undefined) this.#lanes.set(lane, [run]);
    else waiting.push(run);
  }

  #takeTurn(): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    setImmediate(() => this.#move());
  }

  #move(): void {
    this.#isTurnDue = false;
    this.#left = this.#perTurn;
    const next: (() => void)[] = [];
    for (const [lane, waiting] of this.#turns()) {
      const run = waiting.shift();
      if (run !== undefined) next.push(run);
      this.#lanes.delete(lane);
      if (waiting.length > 0) this.#lanes.set(lane, waiting);
    }
    if (this.#lanes.size > 0) this.#takeTurn();
    for (const run of next) run();
  }

  /** A lane that is put back at the end while this runs has another turn. */
  *#turns() {
    for (const lane of this.#lanes) {
      if (this.#left === 0) return;
      this.#left -= 1;
      yield lane;
    }
  }
}
