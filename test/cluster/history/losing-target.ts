import { setTimeout as pause } from 'node:timers/promises';
import type { Random } from '#test/model/random.ts';
import type { Sent, Target } from './attempts.ts';

/** A network between clients and service that loses some answers, and clients that do not wait for all of them. */
export class LosingTarget implements Target {
  readonly #target: Target;
  readonly #random: Random;
  readonly #percent: number;
  readonly #longestMs: number;

  /** Of `percent` of a hundred answers nobody hears; a client goes on after `longestMs` then, or before. */
  constructor(target: Target, random: Random, { percent, longestMs }: { percent: number; longestMs: number }) {
    this.#target = target;
    this.#random = random;
    this.#percent = percent;
    this.#longestMs = longestMs;
  }

  async post(path: string, body: Uint8Array | object, headers: Readonly<Record<string, string>>): Promise<Sent> {
    const sending = this.#target.post(path, body, headers);
    if (!this.#random.chance(this.#percent)) return sending;
    await Promise.race([sending, pause(this.#random.int(this.#longestMs))]);
    return undefined;
  }
}
