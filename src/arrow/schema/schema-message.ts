/** The schema message of a file, as bytes. */
import { hash } from 'node:crypto';
import type { IpcFile } from '../format/ipc-file.ts';
import { continuation, magic, prefixBytes } from '../format/message.ts';
import type { IpcChunk } from './ipc-chunk.ts';

/** Where the first message of the file begins. The engine pads the magic to 64 bytes. */
export function schemaMessageStart(file: IpcFile): number {
  let at = magic.length;
  while (file.readInt32LE(at) !== continuation) at += 8;
  return at;
}

/** The whole message with its prefix: a view of the file. */
export function schemaMessage({ file }: Pick<IpcChunk, 'file'>): Buffer {
  const start = schemaMessageStart(file);
  return file.subarray(start, start + prefixBytes + file.readInt32LE(start + 4));
}

/**
 * Equal for two chunks only where their schemas are, metadata included; to be part of a key. Writers that say the same
 * schema in other bytes get another fingerprint. A digest, because metadata may take megabytes and queues hold many.
 */
export const schemaFingerprint = (chunk: IpcChunk): string => hash('sha256', schemaMessage(chunk), 'base64');
