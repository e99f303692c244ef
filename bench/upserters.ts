/** Clients that upsert rows by `id`: through HTTP here, into the bare engine there, with the same bytes. */
import type { BareTable } from './bare-engine.ts';
import { accepted, type Served } from './closed-loop.ts';
import { RawClient } from './raw-client.ts';
import type { ServiceProcess } from './service-process.ts';
import { UpsertBody } from './upsert-body.ts';

export const floatsPerRow = 4;

export interface Upserters {
  /** Refused where the service said "not now" (503); any other refusal is an error. */
  upsert(client: number, keys: readonly number[]): Promise<Served>;
  close(): void;
}

export type Target = Pick<ServiceProcess, 'port' | 'token'>;

export interface ClientCount {
  readonly clients: number;
  readonly rowsPerRequest: number;
  /** What follows the key in the query, such as a rule. */
  readonly rule?: string;
}

export interface HttpUpserters extends Upserters {
  /** Makes the client's connection, if it has none. */
  connect(client: number): Promise<void>;
  /** Connections made so far, of all clients. */
  connections(): number;
}

export function httpUpserters(service: Target, table: string, size: ClientCount): HttpUpserters {
  const headOf = (bodyBytes: number): string =>
    requestHead(service, `${table}/merge_insert?on=id${size.rule ?? ''}`, bodyBytes);
  const clients = Array.from({ length: size.clients }, () => ({
    connection: new RawClient(service.port),
    body: new UpsertBody(size.rowsPerRequest, floatsPerRow, headOf),
  }));
  return {
    upsert: async (index, keys) => {
      const { connection, body } = clients[index] as (typeof clients)[number];
      const answer = await connection.send(body.requestWith(keys));
      if (answer.status === 200) return accepted;
      if (answer.status === 503) return { isAccepted: false, pauseMs: (answer.retryAfterSeconds ?? 0) * 1000 };
      throw new Error(`${answer.status}: ${answer.body.toString()}`);
    },
    connect: (index) => (clients[index] as (typeof clients)[number]).connection.connect(),
    connections: () => clients.reduce((sum, { connection }) => sum + connection.connections, 0),
    close: () => {
      for (const { connection } of clients) connection.close();
    },
  };
}

/**
 * All through one handle: a handle each sees the others' commits no better and takes more memory. A merge that lost too
 * many races against the others and was given up by the engine counts as refused.
 */
export function bareUpserters(table: BareTable, size: ClientCount): Upserters {
  const noHead = (): string => '';
  const bodies = Array.from({ length: size.clients }, () => new UpsertBody(size.rowsPerRequest, floatsPerRow, noHead));
  return {
    upsert: async (index, keys) => {
      try {
        await table.upsert((bodies[index] as UpsertBody).fileWith(keys));
        return accepted;
      } catch (error) {
        if (error instanceof Error && error.message.includes('Too many concurrent writers')) return lostRaces;
        throw error;
      }
    },
    close: () => {},
  };
}

/** The engine does not say how long to wait. */
const lostRaces: Served = { isAccepted: false, pauseMs: 100 };

/** `path`: below that of all tables. */
export const requestHead = (service: Target, path: string, bodyBytes: number): string =>
  [
    `POST /v1/table/${path} HTTP/1.1`,
    'host: localhost',
    `authorization: Bearer ${service.token}`,
    'content-type: application/vnd.apache.arrow.stream',
    `content-length: ${bodyBytes}`,
    '\r\n',
  ].join('\r\n');
