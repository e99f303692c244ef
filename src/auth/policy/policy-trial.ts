/**
 * A second Cedar instance reads policies first, on a thread that may die. Cedar's parser has a stack of fixed size; a file
 * that is nested too deeply overflows it, and that instance then answers no question: the service could decide no request
 * until a restart. The thread also checks the policies, which takes too long for the service's own thread.
 */
import { Worker } from 'node:worker_threads';
import { AccessSetupError } from '../challenge.ts';
import type { CheckedSource, PolicySource, Remarks } from './policy-source.ts';

export type Trial = { readonly problem: string } | { readonly remarks: Remarks };

/** Throws `AccessSetupError`, which names every mistake as `name:line:column: what`. */
export async function tryPolicies(source: PolicySource): Promise<CheckedSource> {
  const thread = new Worker(new URL('./policy-trial-thread.ts', import.meta.url), {
    workerData: source,
    // Less than the service's own thread has, so that a file which passes here passes there.
    resourceLimits: { stackSizeMb: 0.5 },
  });
  const trial = await new Promise<Trial>((resolve) => {
    thread.once('message', resolve);
    thread.once('error', () => resolve({ problem: tooDeep(source) }));
    thread.once('exit', () => resolve({ problem: tooDeep(source) }));
  });
  if ('problem' in trial) throw new AccessSetupError(trial.problem);
  return { ...source, remarks: trial.remarks };
}

const tooDeep = ({ name }: PolicySource): string =>
  `${name}:1:1: the policies cannot be read: a condition is nested too deeply`;
