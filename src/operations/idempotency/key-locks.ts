import type { KeyedRequest } from '../../catalog/port.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { Turns } from '../../kernel/turns.ts';

/** Clients retry one at a time; more than this at once is a client gone wrong. */
const maxAtOnce = 16;

interface KeyTurn {
  readonly turns: Turns;
  /** Who works and who waits. */
  present: number;
}

/** Requests with one key take turns. Keys nobody is at are forgotten, so there are no more than requests (P7). */
export class KeyTurns {
  readonly #byKey = new Map<string, KeyTurn>();

  /** `SlowDown` where too many wait; the signal's reason where it aborts first. */
  async take({ owner, key }: Pick<KeyedRequest, 'owner' | 'key'>, signal: AbortSignal): Promise<() => void> {
    const name = JSON.stringify([owner, key]);
    const turn = this.#byKey.get(name) ?? { turns: new Turns(maxAtOnce), present: 0 };
    if (turn.present >= maxAtOnce) throw tooMany();
    this.#byKey.set(name, turn);
    turn.present += 1;
    const forget = (): void => {
      turn.present -= 1;
      if (turn.present === 0) this.#byKey.delete(name);
    };
    try {
      const leave = await turn.turns.take('alone', signal);
      return () => {
        leave();
        forget();
      };
    } catch (error) {
      forget();
      throw error;
    }
  }
}

const tooMany = (): LancegateError =>
  new LancegateError('SlowDown', 'too many requests with this Idempotency-Key wait already', { retryAfterSeconds: 1 });
