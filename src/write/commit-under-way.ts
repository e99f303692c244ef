/**
 * A commit from its preparation to its answers, as the next commit of its branch sees it. On an object store a commit is two rounds of
 * requests: the files that its version names, and then the manifest. The next one does its first round with the second of this one.
 *
 * - A commit is *planned* once the files of its version are there. From then on the next one is matched against that version, and its
 *   own files are uploaded.
 * - The manifest of the next one is written after this version is there, and this process was found to own the table since then. So
 *   every version is at exactly its predecessor.
 * - If this version is not made, or that is not known, what was prepared to follow it is thrown away, and matched again with the head
 *   that is there then: after this commit was made by another attempt, or was refused.
 * - Writes are recorded and answered in the order of the versions.
 *
 * Commits on a file system are not planned, because they are made at once.
 */
import type { CommitTurn } from '../engine/port/row-address.ts';
import type { Head } from './write.ts';

export class CommitUnderWay {
  #before: CommitUnderWay | undefined;
  readonly #planned = Promise.withResolvers<Head | undefined>();
  readonly #made = Promise.withResolvers<boolean>();
  readonly #done = Promise.withResolvers<void>();
  #isThrownAway = false;
  #next: CommitUnderWay | undefined;

  /** `before`: the commit whose planned head this one follows. */
  constructor(before: CommitUnderWay | undefined) {
    this.#before = before;
    if (before !== undefined) before.#next = this;
  }

  /** The head that a commit may follow before it is there; undefined if there is none until the first attempt has ended. */
  get planned(): Promise<Head | undefined> {
    return this.#planned.promise;
  }

  /** False once what was planned will not be made. */
  get canBeFollowed(): boolean {
    return !this.#isThrownAway;
  }

  /** Resolves once all of its writes are answered or refused. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** For the first attempt. `confirm`: throws where this process may not own the table any more. */
  turn(head: Head, confirm: () => Promise<void>): CommitTurn {
    const before = this.#before;
    return {
      follows: before && head.version,
      planned: ({ version }) => this.#planned.resolve({ ...head, version, turn: undefined }),
      isNext: async () => {
        if (before === undefined) return true;
        if (!(await before.#made.promise)) return false;
        await confirm();
        return true;
      },
    };
  }

  /**
   * The first attempt has made what was planned, or has not. Then it resolves once no other commit is under way, so that the next
   * attempt, or the refusal of some of the writes, goes on from the head that is there.
   */
  async attempted(isMade: boolean): Promise<void> {
    this.#isThrownAway = !isMade;
    this.#planned.resolve(undefined);
    this.#made.resolve(isMade);
    if (isMade) return;
    if (this.#next !== undefined) await this.#next.#made.promise;
    await this.#before?.done;
  }

  /** The version is there. Resolves when it is its turn to be recorded and answered. */
  async toBeAnswered(): Promise<void> {
    await this.#before?.done;
  }

  /** Also of a commit that ended before its first attempt, such as on a full disk. */
  end(): void {
    this.#before = undefined; // or it would hold all commits of the series
    this.#planned.resolve(undefined);
    this.#made.resolve(false);
    this.#done.resolve();
  }
}
