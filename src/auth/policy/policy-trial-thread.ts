/** The thread of `policy-trial.ts`: reports what is wrong with the policies, or dies while it reads them. */
import { parentPort, workerData } from 'node:worker_threads';
import { AccessSetupError } from '../challenge.ts';
import { CedarPolicy } from './cedar-policy.ts';
import type { PolicySource } from './policy-source.ts';
import type { Trial } from './policy-trial.ts';

function tryHere(source: PolicySource): Trial {
  try {
    const remarks: string[] = [];
    CedarPolicy.load({
      source,
      logger: { warn: ({ remark }) => remarks.push(String(remark)), error: () => undefined },
    });
    return { remarks };
  } catch (error) {
    if (error instanceof AccessSetupError) return { problem: error.message };
    throw error;
  }
}

parentPort?.postMessage(tryHere(workerData as PolicySource));
