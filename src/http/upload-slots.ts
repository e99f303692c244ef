import { LancegateError } from '../kernel/errors.ts';

/** Bounds how many bodies are received at the same time (P7). What a body may weigh is not its business. */
export class UploadSlots {
  readonly #maxConcurrent: number;
  #taken = 0;

  constructor(maxConcurrent: number) {
    this.#maxConcurrent = maxConcurrent;
  }

  /** Returns what gives the slot back, which may be called more than once; `SlowDown` where none is free. */
  take(): () => void {
    if (this.#taken >= this.#maxConcurrent) {
      throw new LancegateError('SlowDown', 'too many uploads at the same time', { retryAfterSeconds: 1 });
    }
    this.#taken += 1;
    let held = true;
    return () => {
      if (held) this.#taken -= 1;
      held = false;
    };
  }
}
