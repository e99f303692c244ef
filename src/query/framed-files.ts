/** Files come from a reader one after the other, each behind its length in four bytes (little endian). */
import { type IpcFile, ownFile } from '../arrow/format/ipc-file.ts';
import { mostReplyBytes } from './protocol.ts';

const bytesOfLength = 4;

/** Returns the bytes of a file, in parts that fit into one message each. */
export function* framed(file: IpcFile): Generator<Buffer, void, void> {
  const length = Buffer.allocUnsafe(bytesOfLength);
  length.writeUInt32LE(file.length);
  yield length;
  for (let at = 0; at < file.length; at += mostReplyBytes) yield file.subarray(at, at + mostReplyBytes);
}

/** Returns each file in memory of its own. */
export async function* framedFiles(parts: AsyncIterable<Uint8Array>): AsyncGenerator<IpcFile, void, void> {
  let target = Buffer.allocUnsafe(bytesOfLength);
  let [filled, isFile] = [0, false];
  for await (const part of parts) {
    for (let at = 0; at < part.length; ) {
      const taken = part.subarray(at, at + target.length - filled);
      target.set(taken, filled);
      at += taken.length;
      filled += taken.length;
      if (filled < target.length) break;
      if (isFile) yield ownFile(target);
      target = isFile ? Buffer.allocUnsafe(bytesOfLength) : Buffer.allocUnsafeSlow(target.readUInt32LE());
      [filled, isFile] = [0, !isFile];
    }
  }
}
