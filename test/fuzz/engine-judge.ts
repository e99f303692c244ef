/** The engine in a child process, asked one file at a time; its death or silence is an answer, not the end of the test. */
import { type ChildProcess, fork } from 'node:child_process';

export type Verdict =
  | { readonly stored: number }
  | { readonly refused: string }
  | { readonly died: string }
  | { readonly silentForMs: number };

const patienceMs = 20_000;

export class EngineJudge {
  #child: ChildProcess | undefined;
  #stderr = '';

  async judge(file: Uint8Array): Promise<Verdict> {
    this.#child ??= await this.#start();
    this.#stderr = '';
    const verdict = await this.#ask(this.#child, file);
    if (this.#stderr.includes('panicked at')) return { died: this.#stderr.slice(0, 600) };
    return verdict;
  }

  stop(): void {
    this.#child?.disconnect();
    this.#child = undefined;
  }

  async #start(): Promise<ChildProcess> {
    const child = fork(new URL('./engine-child.ts', import.meta.url), {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, RUST_BACKTRACE: '0' },
    });
    child.stderr?.on('data', (text: Buffer) => {
      this.#stderr += text.toString();
    });
    await new Promise((resolve) => child.once('message', resolve));
    return child;
  }

  #ask(child: ChildProcess, file: Uint8Array): Promise<Verdict> {
    return new Promise((resolve) => {
      const answer = (verdict: Verdict): void => {
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
      child.once('message', (verdict) => answer(verdict as Verdict));
      child.once('exit', (code, signal) => answer({ died: `exit ${code ?? signal}: ${this.#stderr.slice(0, 600)}` }));
      child.send(file);
    });
  }
}
