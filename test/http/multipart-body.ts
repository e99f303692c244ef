/** Bodies of several operations, as HTTP clients make them. */
import { arrowStream, type HeaderFields, type TestService } from '#test/fixtures/service.ts';

type Content = object | Uint8Array;

export interface Part {
  readonly name: string;
  readonly content: Content;
}

export const boundary = 'a-boundary';
export const multipart = { 'content-type': `multipart/form-data; boundary=${boundary}` };

export const part = (name: string, content: Content): Part => ({ name, content });

/** The body of these parts, with `boundary` between them. */
export const bodyOf = (parts: readonly Part[]): Buffer =>
  Buffer.concat([...parts.map(encoded), Buffer.from(`--${boundary}--\r\n`)]);

function encoded({ name, content }: Part): Buffer {
  const isSource = content instanceof Uint8Array;
  const file = isSource ? `; filename="${name}.arrow"` : '';
  const head = [
    `--${boundary}`,
    `Content-Disposition: form-data; name="${name}"${file}`,
    `Content-Type: ${isSource ? arrowStream : 'application/json'}`,
  ];
  const bytes = isSource ? content : Buffer.from(JSON.stringify(content));
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes, Buffer.from('\r\n')]);
}

export const transact = (service: TestService, table: string, parts: readonly Part[], headers: HeaderFields = {}) =>
  service.post(`/v1/table/${table}/transact`, bodyOf(parts), { ...multipart, ...headers });
