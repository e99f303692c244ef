import type { TransactionCatalog } from '../catalog/port.ts';
import { type Clock, repeat } from '../kernel/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** So many keys and as many transactions go in one short transaction, so that no commit waits long for it. */
const maxPerRound = 1_000;
const roundEveryMs = 60_000;

/**
 * Forgets expired idempotency keys and old transactions, a little at a time: up to a thousand of each a minute, or a
 * second while there are more. Returns how to stop it, which waits for a round under way.
 */
export function keepForgetting(parts: {
  readonly catalog: TransactionCatalog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly transactionsKeptMs: number;
}): () => Promise<void> {
  const { clock, logger } = parts;
  return repeat(clock, roundEveryMs, async () => {
    try {
      return (await forgetSome(parts)) ? roundEveryMs : 1_000;
    } catch (error) {
      logger.warn({ error }, 'old records could not be removed; the service tries again');
      return roundEveryMs;
    }
  });
}

async function forgetSome(parts: Parameters<typeof keepForgetting>[0]): Promise<boolean> {
  const expiredAtMs = parts.clock.nowMs();
  const committedBeforeMs = expiredAtMs - parts.transactionsKeptMs;
  const { transactions, keys } = await parts.catalog.forgetRecords({ committedBeforeMs, expiredAtMs }, maxPerRound);
  return Math.max(keys, transactions) < maxPerRound;
}
