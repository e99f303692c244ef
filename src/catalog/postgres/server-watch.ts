/**
 * Whether the server answers at all. A statement without an answer may wait for a lock or for a busy server. Or the network loses all
 * packets, without an error. Only a second question, on a connection of its own, tells which it is.
 */
import pg from 'pg';
import type { Clock } from '../../kernel/clock.ts';

/** A busy server may take three seconds for a statement. The watch does not ask before that. */
export const askAfterMs = 4_000;
/** For a new connection and an answer on it. A server that takes longer is as good as none: the leases of replicas need it sooner. */
const answersWithinMs = 2_000;

/** `refuses`: no connection could be made, and that was learnt at once. */
type Heard = 'answers' | 'refuses' | 'silent';

export class ServerWatch {
  readonly #connection: pg.ClientConfig;
  readonly #clock: Clock;
  #isSilent = false;
  #isClosed = false;
  #asked: Promise<Heard> | undefined;

  constructor(connection: pg.ClientConfig, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
  }

  /** Since a question was not answered, until one is: who tries to connect waits in vain. */
  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** Calls `gone` once where a question finds the server silent or refusing, at the earliest after `askAfterMs`. The returned function ends the watch. */
  whileWaiting(gone: () => void): () => void {
    let isOver = false;
    let cancel: () => void;
    const askLater = (): void => {
      cancel = this.#clock.schedule(askAfterMs, () => {
        void this.ask().then((heard) => {
          if (isOver) return;
          if (heard === 'answers') askLater();
          else gone();
        });
      });
    };
    askLater();
    return () => {
      isOver = true;
      cancel();
    };
  }

  /** All who ask at once share one question, on a connection beside the pool, which may be full of those that wait. */
  ask(): Promise<Heard> {
    this.#asked ??= this.#ask().finally(() => {
      this.#asked = undefined;
    });
    return this.#asked;
  }

  close(): void {
    this.#isClosed = true;
  }

  async #ask(): Promise<Heard> {
    const heard = await this.#listen();
    this.#isSilent = heard === 'silent';
    // A silent server is asked so often, so that all requests find it back.
    if (this.#isSilent && !this.#isClosed) this.#clock.schedule(500, () => void this.ask());
    return heard;
  }

  async #listen(): Promise<Heard> {
    const client = new pg.Client({ ...this.#connection, connectionTimeoutMillis: 2 * answersWithinMs });
    client.on('error', () => undefined); // the question fails with the same error
    const { promise: tooLate, resolve } = Promise.withResolvers<Heard>();
    const cancel = this.#clock.schedule(answersWithinMs, () => resolve('silent'));
    try {
      return await Promise.race([answerOf(client), tooLate]);
    } finally {
      cancel();
      void client.end().catch(() => undefined);
    }
  }
}

/** Through a pooler, only a statement reaches the server. One that refuses the connection answers too. */
async function answerOf(client: pg.Client): Promise<Heard> {
  try {
    await client.connect();
    await client.query('select 1');
    return 'answers';
  } catch (error) {
    return error instanceof pg.DatabaseError ? 'answers' : 'refuses';
  }
}
