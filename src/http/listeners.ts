/**
 * More listeners on the port of an HTTP server. Node takes one new connection from each in a turn of the event loop (libuv's
 * `uv__server_io`; a hundred connections took a hundred turns), so a busy service would take a few hundred a second, and
 * whoever connects waits for all who came before. The kernel spreads connections over listeners that share a port
 * (`SO_REUSEPORT`), which may be another process's, too, if it is the same user's and asks for it. So the port is first
 * taken alone: a port that is in use is an error as ever.
 *
 * Linux only; elsewhere there is the one listener.
 */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { createServer, type Server as Listener, type Socket } from 'node:net';

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly backlog: number;
}

const listeners = 8;

/** A name may stand for several addresses, which then each have a listener. */
export const canShare = ({ host }: Pick<Address, 'host'>): boolean =>
  process.platform === 'linux' && host !== 'localhost';

/** Throws the error of `listen` where somebody else has the port. Not asked of port 0: the kernel finds a free one. */
export async function requireFree({ host, port }: Address): Promise<void> {
  if (port === 0) return;
  const alone = createServer().listen({ host, port });
  await once(alone, 'listening');
  await close(alone);
}

/** Beside the one that `server` has itself, which must share its port. What it returns stops them, and waits for theirs to end. */
export async function listenMore(server: Server, address: Address): Promise<() => Promise<void>> {
  const more = Array.from({ length: listeners - 1 }, () => createServer({ allowHalfOpen: true, noDelay: true }));
  for (const listener of more) listener.on('connection', (socket) => server.emit('connection', socket));
  try {
    await Promise.all(more.map((listener) => listening(listener, address)));
  } catch (error) {
    for (const listener of more) listener.close();
    throw error;
  }
  return async () => {
    await Promise.all(more.map(close));
  };
}

/** Whoever comes when there are so many hears nothing, as from Node's own limit, which counts those of one listener. */
export function limitConnections(server: Server, maxConnections: number): void {
  let open = 0;
  server.on('connection', (socket: Socket) => {
    open += 1;
    socket.once('close', () => {
      open -= 1;
    });
    if (open > maxConnections) socket.destroy();
  });
}

async function listening(listener: Listener, address: Address): Promise<void> {
  listener.listen({ ...address, reusePort: true });
  await once(listener, 'listening');
}

const close = (listener: Listener): Promise<void> =>
  new Promise((resolve) => {
    listener.close(() => resolve());
  });
