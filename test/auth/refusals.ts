import assert from 'node:assert/strict';
import { challengeFor } from '#src/auth/challenge.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';

/** The refusal a promise ends with. Fails if it does not, or if the message or challenge repeats the credential. */
export async function refusal(promise: Promise<unknown>, kind: ErrorName, credential?: string): Promise<string> {
  const error = await promise.then(
    (value) => assert.fail(`let in: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof LancegateError)) throw error;
  assert.equal(error.kind, kind, error.message);
  const shown = `${error.message} ${challengeFor(error)} ${JSON.stringify(error.internal)}`;
  if (credential !== undefined) assert.ok(!shown.includes(credential), 'the credential is repeated');
  return error.message;
}

export const bearer = (secret: string) => ({ kind: 'bearer', secret, digest: `digest of ${secret}` }) as const;
