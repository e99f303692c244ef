/** Composition of what `lancegate doctor` asks the parts of a service; each part is loaded when it is asked. */
import { execFile } from 'node:child_process';
import type { Probes } from './cli/probes.ts';
import { systemClock } from './kernel/clock.ts';

export const serviceProbes: Probes = {
  engine: () => loadElsewhere(new URL('./engine/lance/native/native.ts', import.meta.url)),
  async objectStore({ storageRoot, storageOptions }) {
    const { openStore, requireAnswer } = await import('./engine/lance/store/open-store.ts');
    const place = await openStore(storageRoot, storageOptions);
    if (place !== undefined) await requireAnswer(place, storageRoot);
  },
  async database(url, { catalogPasswordFile }) {
    const { describeDatabase } = await import('./catalog/postgres/open-postgres-catalog.ts');
    return describeDatabase({ url, passwordFile: catalogPasswordFile }, systemClock);
  },
};

/** In a process of its own: a damaged library, or one for a newer processor, kills the process that loads it. */
export function loadElsewhere({ href }: URL): Promise<void> {
  const program = 'await import(process.argv[1]).catch((error) => { console.error(error.message); process.exit(1); })';
  return new Promise((resolve, reject) => {
    const args = ['--input-type=module', '--eval', program, href];
    execFile(process.execPath, args, { timeout: 10_000 }, (error, _stdout, stderr) => {
      if (error === null) resolve();
      else reject(new Error(stderr.trim() || `it ends its process (${error.signal ?? error.code})`));
    });
  });
}
