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
import { type AddressInfo, createServer, type Server as Listener } from 'node:net';

/** What to listen on. */
export interface Entrance {
  readonly host: string;
  readonly port: number;
}

const listeners = 8;

/** A name may stand for several addresses, which then each have a listener. */
export const canShare = (host: string): boolean => process.platform === 'linux' && host !== 'localhost';

/** Throws the error of `listen` where somebody else has the port. Not asked of port 0: the kernel finds a free one. */
export async function requireFree(entrance: Entrance): Promise<void> {
  if (entrance.port === 0) return;
  const alone = createServer().listen(entrance);
  await once(alone, 'listening');
  await close(alone);
}

/**
 * Beside the one that `server` has, which must share its port (`reusePort`). What it returns stops them, and resolves when all
 * connections that came through them have ended.
 */
export async function listenMore(server: Server, backlog: number): Promise<() => Promise<void>> {
  const { address: host, port } = server.address() as AddressInfo;
  const more = Array.from({ length: listeners - 1 }, () => createServer({ allowHalfOpen: true, noDelay: true }));
  for (const listener of more) listener.on('connection', (socket) => server.emit('connection', socket));
  try {
    await Promise.all(
      more.map((listener) => once(listener.listen({ host, port, backlog, reusePort: true }), 'listening')),
    );
  } catch (error) {
    for (const listener of more) listener.close();
    throw error;
  }
  return async () => {
    await Promise.all(more.map(close));
  };
}

const close = (listener: Listener): Promise<void> =>
  new Promise((resolve) => {
    listener.close(() => resolve());
  });
