/** What one look at the machine, or at something the service needs, found. */
import type { Config } from '../../config/settings.ts';
import { codeOf } from '../../kernel/errors.ts';
import { redactText } from '../../telemetry/redact.ts';
import type { CliContext } from '../command.ts';
import { printable } from '../remote/printed-rows.ts';
import type { RunningService } from '../remote/running-service.ts';

export interface Finding {
  readonly state: 'ok' | 'warning' | 'failed';
  readonly said: string;
  /** What to do; undefined where all is well. */
  readonly next?: string;
  /** Of another clock that was seen on the way. */
  readonly clock?: OtherClock;
}

export interface OtherClock {
  readonly whose: string;
  /** Negative if this machine's clock is ahead. */
  readonly aheadMs: number;
}

/** All that a look can go by. */
export interface Patient {
  readonly config: Config;
  readonly context: CliContext;
  /** On the data folder; after a crash, the one that did. */
  readonly running: RunningService | undefined;
}

export type Look = (patient: Patient) => Promise<Finding | readonly Finding[]>;

export const ok = (said: string): Finding => ({ state: 'ok', said });
export const warning = (said: string, next: string): Finding => ({ state: 'warning', said, next });
export const failed = (said: string, next: string): Finding => ({ state: 'failed', said, next });

/** What the network, a driver or a library said first, in one line, for a terminal. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return plain(String(error));
  if (error.cause instanceof Error) return reasonOf(error.cause);
  return plain(error.message || codeOf(error) || error.name);
}

/** Texts of other programs can have secrets, and what a terminal obeys. */
export const plain = (text: string): string => printable(redactText(text).replaceAll(/\s+/g, ' '));
