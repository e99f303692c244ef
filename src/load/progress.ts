/** Shows how far a load is: by a bar that moves on a terminal, by a line now and then elsewhere. */
import type { Clock } from '../kernel/clock.ts';

interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

interface Done {
  readonly bytes: number;
  readonly rows: number | undefined;
}

const barWidth = 24;

export class Progress {
  readonly #output: ProgressOutput;
  readonly #clock: Clock;
  readonly #totalBytes: number | undefined;
  readonly #startedAtMs: number;
  #shownAtMs: number;

  constructor(output: ProgressOutput, clock: Clock, totalBytes: number | undefined) {
    this.#output = output;
    this.#clock = clock;
    this.#totalBytes = totalBytes;
    this.#startedAtMs = clock.nowMs();
    this.#shownAtMs = this.#startedAtMs;
  }

  show(done: Done): void {
    const nowMs = this.#clock.nowMs();
    const isBar = this.#output.isTTY === true;
    if (nowMs - this.#shownAtMs < (isBar ? 100 : 10_000)) return;
    this.#shownAtMs = nowMs;
    if (isBar) this.#output.write(`\r\u001b[K${this.#bar(done)}${this.#words(done)}`.slice(0, this.#widest));
    else this.#output.write(`${this.#words(done)}\n`);
  }

  /** Leaves the line to what comes next. */
  end(): void {
    if (this.#output.isTTY === true) this.#output.write('\r\u001b[K');
  }

  /** How many characters fit behind those that clear the line. */
  get #widest(): number {
    return (this.#output.columns ?? 80) + '\r\u001b[K'.length - 1;
  }

  #bar({ bytes }: Done): string {
    if (this.#totalBytes === undefined) return '';
    const filled = Math.floor(barWidth * Math.min(1, bytes / Math.max(1, this.#totalBytes)));
    return `[${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}] `;
  }

  #words({ bytes, rows }: Done): string {
    const seconds = Math.max(0.001, (this.#clock.nowMs() - this.#startedAtMs) / 1_000);
    const total = this.#totalBytes;
    const rate = bytes / seconds;
    const left = total === undefined || rate === 0 ? '' : `, ${durationOf((total - bytes) / rate)} left`;
    const of = total === undefined ? '' : ` of ${sizeOf(total)}`;
    const counted = rows === undefined ? '' : `${rows.toLocaleString('en')} rows, `;
    return `${counted}${sizeOf(bytes)}${of}, ${sizeOf(rate)}/s${left}`;
  }
}

const sizeOf = (bytes: number): string => {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${(bytes / 1_000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
};

function durationOf(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole < 60) return `${whole}s`;
  return whole < 3_600
    ? `${Math.floor(whole / 60)}m${whole % 60}s`
    : `${Math.floor(whole / 3_600)}h${Math.floor((whole % 3_600) / 60)}m`;
}
