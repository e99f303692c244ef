const mostBytes = 2 ** 26;

/** How much of files is in memory at once on its way to a store, whatever their number (P7). First come, first served. */
export class UploadBudget {
  #freeBytes = mostBytes;
  readonly #waiting: { readonly bytes: number; readonly start: () => void }[] = [];

  /** `bytes`: the most that `upload` has in memory. */
  async use<Result>(bytes: number, upload: () => Promise<Result>): Promise<Result> {
    const share = Math.min(bytes, mostBytes);
    if (this.#waiting.length > 0 || share > this.#freeBytes) {
      await new Promise<void>((start) => this.#waiting.push({ bytes: share, start }));
    } else this.#freeBytes -= share;
    try {
      return await upload();
    } finally {
      this.#freeBytes += share;
      this.#startNext();
    }
  }

  #startNext(): void {
    for (let next = this.#waiting[0]; next !== undefined && next.bytes <= this.#freeBytes; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#freeBytes -= next.bytes;
      next.start();
    }
  }
}
