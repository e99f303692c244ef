/** Asks a service again until it answers. */
import type { Clock } from '../../kernel/clock.ts';

// A service that is busy, restarts or cannot be reached for a while does not end a load.
const firstPauseMs = 250;
const longestPauseMs = 15_000;

interface RetryWaits {
  readonly clock: Clock;
  readonly pause: (forMs: number) => Promise<void>;
  /** Says after how many milliseconds the error may be over, 0 where it does not say; undefined where it stays. */
  readonly mayPass: (error: unknown) => number | undefined;
}

/** `attempt` may be made again after an error that passes, even where it did its work. */
export async function untilAnswered<Answer>(
  attempt: () => Promise<Answer>,
  { clock, pause, mayPass }: RetryWaits,
): Promise<Answer> {
  // Without an answer for five minutes, the load asks a person to look.
  const untilMs = clock.nowMs() + 5 * 60_000;
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
