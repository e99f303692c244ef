/**
 * Runs what is added in the order it came, so many in each turn of the event loop. In between, the sockets are looked at.
 * As long as its callers are; the connections of the server bound it.
 */
export class Line {
  readonly #perTurn: number;
  #waiting: (() => void)[] = [];
  #isMoving = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  add(run: () => void): void {
    this.#waiting.push(run);
    if (this.#isMoving) return;
    this.#isMoving = true;
    setImmediate(() => this.#move());
  }

  #move(): void {
    const next = this.#waiting.splice(0, this.#perTurn);
    this.#isMoving = this.#waiting.length > 0;
    if (this.#isMoving) setImmediate(() => this.#move());
    for (const run of next) run();
  }
}
