import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { token } from './service.ts';

export const arrowType = 'application/vnd.apache.arrow.stream';
export const usersStream = Buffer.from(tableToIPC(tableFromArrays({ id: Int32Array.from([1, 2, 3]) }), 'stream'));

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined for an empty answer. */
  readonly json: unknown;
}

interface Asking {
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  /** A text or bytes as they are; anything else as JSON. */
  readonly body?: unknown;
}

/** Asks with a valid token. */
export async function ask(service: { readonly url: string }, path: string, asking: Asking = {}): Promise<Reply> {
  const { method = 'POST', headers = {}, body } = asking;
  const sent =
    body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...headers },
    ...(sent === undefined ? {} : { body: sent as NonNullable<RequestInit['body']> }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: text === '' ? undefined : parse(text) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // compensated: `text` has it
  }
}

export const upload = (service: { readonly url: string }, path: string, asking: Asking = {}): Promise<Reply> =>
  ask(service, path, {
    ...asking,
    body: asking.body ?? usersStream,
    headers: { 'content-type': arrowType, ...asking.headers },
  });
