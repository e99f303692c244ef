import type { ServerResponse } from 'node:http';
import type { Clock } from '../../kernel/clock.ts';

/**
 * Says now and each second that the request is here, by the interim answer `102 Processing`, until the answer begins. A client
 * that waits for `100 Continue` knows interim answers. Returns what ends it.
 */
export function sayProcessing(response: ServerResponse, clock: Clock): () => void {
  let cancel = (): void => undefined;
  const say = (): void => {
    if (response.headersSent) return;
    response.writeProcessing();
    cancel = clock.schedule(1_000, say);
  };
  say();
  return () => cancel();
}
