import { invalidInput, LancegateError } from '../../kernel/errors.ts';

/** Returns the whole body as text. `BodyTooLarge` as soon as it is beyond the limit, `InvalidInput` where it is not UTF-8. */
export async function readText(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
    chunks.push(chunk);
  }
  return decodeUtf8(Buffer.concat(chunks));
}

export const bodyTooLarge = (maxBytes: number): LancegateError =>
  new LancegateError('BodyTooLarge', `the body is larger than the ${maxBytes} bytes that this service accepts`);

function decodeUtf8(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw invalidInput('the body is not UTF-8', error);
  }
}
