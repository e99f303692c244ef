/** The engine in a child process, asked one filter at a time; its death or silence is an answer, not the end of the test. */
import { type ChildProcess, fork } from 'node:child_process';

export interface SqlQuestion {
  /** What a count filters by, or the filter of a merge's update or of its deletion by source. */
  readonly way: 'count' | 'update' | 'delete';
  readonly sql: string;
}
interface Spent {
  readonly ms: number;
  readonly residentBytes: number;
}
export type SqlVerdict =
  | ({ readonly rows: number } & Spent)
  /** In the words that a client gets, and in the engine's. */
  | ({ readonly refusedAs: string; readonly message: string; readonly engineText: string } & Spent)
  | { readonly died: string }
  | { readonly silentForMs: number };

/** Far beyond what four times of any limit takes on a slow machine. */
const patienceMs = 120_000;

export class SqlJudge {
  readonly #withIndex: boolean;
  #child: ChildProcess | undefined;

  constructor(options: { withIndex: boolean }) {
    this.#withIndex = options.withIndex;
  }

  async judge(question: SqlQuestion): Promise<SqlVerdict> {
    this.#child ??= await this.#start();
    return this.#ask(this.#child, question);
  }

  stop(): void {
    this.#child?.disconnect();
    this.#child = undefined;
  }

  async #start(): Promise<ChildProcess> {
    const child = fork(new URL('./sql-child.ts', import.meta.url), {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      env: { ...process.env, RUST_BACKTRACE: '0', WITH_INDEX: this.#withIndex ? '1' : '0' },
    });
    await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => reject(new Error(`the child ended as it began: ${code}`)));
    });
    child.removeAllListeners('exit');
    return child;
  }

  #ask(child: ChildProcess, question: SqlQuestion): Promise<SqlVerdict> {
    return new Promise((resolve) => {
      const answer = (verdict: SqlVerdict): void => {
        clearTimeout(timer);
        child.removeAllListeners('message');
        child.removeAllListeners('exit');
        if ('died' in verdict || 'silentForMs' in verdict) this.#child = undefined;
        resolve(verdict);
      };
      const timer = setTimeout(() => {
        child.kill('SIGKILL');
        answer({ silentForMs: patienceMs });
      }, patienceMs);
      child.once('message', (verdict) => answer(verdict as SqlVerdict));
      child.once('exit', (code, signal) => answer({ died: `exit ${code ?? signal}` }));
      child.send(question);
    });
  }
}
