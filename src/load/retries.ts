/** A service that is busy, restarts or cannot be reached for a while does not end a load. */
import type { Clock } from '../kernel/clock.ts';

const firstPauseMs = 250;
const longestPauseMs = 15_000;
/** Without an answer for so long, a person is asked to look. */
const patienceMs = 5 * 60_000;

interface RetryWaits {
  readonly clock: Clock;
  readonly pause: (forMs: number) => Promise<void>;
  /** Milliseconds after which the error may be over, 0 where it does not say; undefined where it stays. */
  readonly mayPass: (error: unknown) => number | undefined;
}

/** `attempt` may be made again after an error that passes, even where it did its work. */
export async function untilAnswered<Answer>(
  attempt: () => Promise<Answer>,
  { clock, pause, mayPass }: RetryWaits,
): Promise<Answer> {
  const untilMs = clock.nowMs() + patienceMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await attempt();
    } catch (error) {
      const afterMs = mayPass(error);
      if (afterMs === undefined || clock.nowMs() >= untilMs) throw error;
      await pause(Math.min(Math.max(afterMs, pauseMs), longestPauseMs));
    }
  }
}
