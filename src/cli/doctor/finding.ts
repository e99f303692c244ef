/** A look at the machine, or at something the service needs, has a finding. */
import type { Config } from '../../config/settings.ts';
import { codeOf } from '../../kernel/errors.ts';
import { redactText } from '../../telemetry/redact.ts';
import type { CliContext } from '../command.ts';
import { printable } from '../remote/printed-rows.ts';
import type { RunningService } from '../remote/running-service.ts';

export interface Finding {
  readonly state: 'ok' | 'warning' | 'failed';
  readonly said: string;
  /** It says what to do, unless all is well. */
  readonly next?: string;
  /** This other clock was seen on the way. */
  readonly clock?: OtherClock;
}

export interface OtherClock {
  readonly whose: string;
  /** It is negative if this machine's clock is ahead. */
  readonly aheadMs: number;
}

export interface Patient {
  readonly config: Config;
  readonly context: CliContext;
  /** It runs on the data folder; after a crash, it is the one that did. */
  readonly running: RunningService | undefined;
}

export type Look = (patient: Patient) => Promise<Finding | readonly Finding[]>;

export const ok = (said: string): Finding => ({ state: 'ok', said });
export const warning = (said: string, next: string): Finding => ({ state: 'warning', said, next });
export const failed = (said: string, next: string): Finding => ({ state: 'failed', said, next });

/** Shows what the network, a driver or a library said first, in one line, on a terminal. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return plain(String(error));
  if (error.cause instanceof Error) return reasonOf(error.cause);
  return plain(error.message || codeOf(error) || error.name);
}

/** Texts of other programs can have secrets, and what a terminal obeys. */
export const plain = (text: string): string => printable(redactText(text).replaceAll(/\s+/g, ' '));
