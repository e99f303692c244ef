/** Smaller buffers may share their memory with others. */
export const leastOwnBytes = 64 << 10;

/** Gives back the memory of bytes that nothing reads any more. The collector would keep hundreds of megabytes of them for long. */
export function freeMemory({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= leastOwnBytes) buffer.transfer(0);
}
