/** What a client learns from the answers to one write, which it may send several times. */
import { setTimeout as pause } from 'node:timers/promises';
import { errorCatalogue } from '#src/kernel/errors.ts';
import type { Random } from '#test/model/random.ts';
import type { Outcome } from './operation.ts';

export interface Reply {
  readonly status: number;
  readonly body: Buffer;
}

/** Undefined if the connection broke without an answer; `not sent` if none of the request was sent. */
export type Sent = Reply | 'not sent' | undefined;

/** How requests reach a service. */
export interface Target {
  post(path: string, body: Uint8Array | object, headers: Readonly<Record<string, string>>): Promise<Sent>;
}

/** The codes of the errors after which nobody knows what was written (docs/errors.md). */
const unknownCodes = new Set<unknown>(
  Object.values(errorCatalogue)
    .filter(({ written }) => written === 'unknown')
    .map(({ code }) => code),
);
const maxAttempts = 6;

/** An outcome, or an answer that no fault explains, such as a 400. */
export function outcomeOf(sent: Sent, countIn: string): Outcome | { readonly kind: 'surprise'; readonly text: string } {
  if (sent === undefined) return { kind: 'unknown' };
  if (sent === 'not sent') return { kind: 'nothing written' };
  const answer = jsonOf(sent.body);
  if (sent.status === 200) return { kind: 'done', version: Number(answer.version), count: Number(answer[countIn]) };
  if (sent.status !== 503 && sent.status !== 500) return { kind: 'surprise', text: `${sent.status} ${sent.body}` };
  return { kind: unknownCodes.has(answer.code ?? 18) ? 'unknown' : 'nothing written' };
}

/** Repeats what nothing was written of, and with a key also what may have been written. */
export async function settle(attempt: () => Promise<Outcome>, isKeyed: boolean, random: Random): Promise<Outcome> {
  let outcome: Outcome = { kind: 'nothing written' };
  for (let attempts = 0; attempts < maxAttempts; attempts++) {
    const next = await attempt();
    // A later attempt knows nothing of an earlier one, unless it gets the answer to it.
    outcome = next.kind === 'nothing written' ? outcome : next;
    if (outcome.kind === 'done' || (outcome.kind === 'unknown' && !isKeyed)) break;
    await pause(random.int(20 << attempts));
  }
  return outcome;
}

function jsonOf(body: Buffer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString()) as Record<string, unknown>;
  } catch {
    return {}; // translated: an answer that is not of the service, which says nothing
  }
}
