/** A stretch of network that a test can break: a TCP proxy on loopback. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { breakOff } from '#test/fixtures/break-off.ts';

/**
 * - `cut`: every connection ends, and new ones end at once.
 * - `stalled`: nothing arrives, in either direction; all of it does when the link is open again.
 * - `deaf`: what the near side sends arrives and what the far side answers does not; such connections end with that.
 */
export type LinkState = 'open' | 'cut' | 'stalled' | 'deaf';

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

export class Link {
  readonly #server: Server;
  readonly #farPort: () => number;
  readonly #pairs = new Set<Pair>();
  #state: LinkState = 'open';

  private constructor(farPort: () => number) {
    this.#farPort = farPort;
    this.#server = createServer({ allowHalfOpen: true }, (near) => this.#join(near));
  }

  /** To a port of loopback, asked for with each connection; ended by what is given to `after`. */
  static async open(after: (clean: () => void) => void, farPort: () => number): Promise<Link> {
    const link = new Link(farPort);
    link.#server.listen(0, '127.0.0.1');
    await once(link.#server, 'listening');
    after(() => {
      link.state = 'cut';
      link.#server.close();
    });
    return link;
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

  #join(near: Socket): void {
    const far = connect({ port: this.#farPort(), host: '127.0.0.1', allowHalfOpen: true });
    const pair = { near, far };
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

  #apply({ near, far }: Pair): void {
    for (const [from, to] of [
      [near, far],
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
