/** The store does not do what the service needs of it. The operator reads the text at the start; it never reaches a client. */
export class StoreUnusable extends Error {
  override readonly name = 'StoreUnusable';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
  }
}
