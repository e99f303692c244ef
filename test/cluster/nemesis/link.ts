/** A stretch of network that a test can break: a TCP proxy. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { breakOff } from '#test/fixtures/break-off.ts';

/**
 * - `cut`: every connection ends, and new ones end at once.
 * - `stalled`: nothing arrives, in either direction; all of it does when the link is open again.
 * - `deaf`: what the near side sends arrives and what the far side answers does not; such connections end with that.
 */
export type LinkState = 'open' | 'cut' | 'stalled' | 'deaf';

const loopback = '127.0.0.1';

/** On loopback, unless it says otherwise. */
interface Far {
  readonly host?: string;
  readonly port: number;
}

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** Between them, on the way to the far side. */
  readonly gate: Transform;
}

export interface Hold {
  /** Resolves when the text is on its way. */
  readonly reached: Promise<void>;
  release(): void;
}

export class Link {
  readonly #server: Server;
  readonly #far: () => Far;
  readonly #pairs = new Set<Pair>();
  #state: LinkState = 'open';
  #hold: { readonly text: string; readonly reached: () => void; readonly released: Promise<void> } | undefined;

  private constructor(far: () => Far) {
    this.#far = far;
    this.#server = createServer({ allowHalfOpen: true }, (near) => this.#join(near));
  }

  /** To where `far` says with each connection, from `host`; ended by what is given to `after`. */
  static async open(after: (clean: () => void) => void, far: () => Far, host = loopback): Promise<Link> {
    const link = new Link(far);
    link.#server.listen(0, host);
    await once(link.#server, 'listening');
    after(() => {
      link.state = 'cut';
      link.#server.close();
    });
    return link;
  }

  get host(): string {
    return (this.#server.address() as AddressInfo).address;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get state(): LinkState {
    return this.#state;
  }

  set state(state: LinkState) {
    const wasDeaf = this.#state === 'deaf';
    this.#state = state;
    for (const pair of this.#pairs) {
      if (wasDeaf || state === 'cut') end(pair);
      else this.#apply(pair);
    }
  }

  /** The next text like this to the far side waits, and what its connection sends after it. */
  hold(text: string): Hold {
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    this.#hold = { text, reached: reached.resolve, released: released.promise };
    return { reached: reached.promise, release: released.resolve };
  }

  async #pass(data: Buffer): Promise<Buffer> {
    const hold = this.#hold;
    if (hold === undefined || !data.includes(hold.text)) return data;
    this.#hold = undefined;
    hold.reached();
    await hold.released;
    return data;
  }

  #join(near: Socket): void {
    const far = connect({ host: loopback, ...this.#far(), allowHalfOpen: true });
    const gate = new Transform({
      transform: (data: Buffer, _encoding, done) => void this.#pass(data).then((passed) => done(null, passed)),
    });
    gate.pipe(far);
    const pair = { near, far, gate };
    this.#pairs.add(pair);
    for (const socket of [near, far]) {
      socket.setNoDelay(true);
      socket.on('error', () => end(pair)).on('close', () => this.#forget(pair));
    }
    if (this.#state === 'cut') end(pair);
    else this.#apply(pair);
  }

  #forget(pair: Pair): void {
    this.#pairs.delete(pair);
    end(pair);
  }

  #apply({ near, far, gate }: Pair): void {
    for (const [from, to] of [
      [near, gate],
      [far, near],
    ] as const) {
      from.unpipe(to).pause();
      const flows = this.#state === 'open' || (this.#state === 'deaf' && from === near);
      if (flows) from.pipe(to);
    }
  }
}

const end = ({ near, far }: Pair): void => {
  for (const socket of [near, far]) if (!socket.destroyed) breakOff(socket);
};
