/** Composition of what `lancegate doctor` asks the parts of a service; each part is loaded when it is asked. */
import type { Probes } from './cli/probes.ts';
import { systemClock } from './kernel/clock.ts';

export const serviceProbes: Probes = {
  async engine() {
    await import('./engine/lance/native/native.ts');
  },
  async objectStore({ storageRoot, storageOptions }) {
    const { openStore, requireAnswer } = await import('./engine/lance/store/open-store.ts');
    const place = await openStore(storageRoot, storageOptions);
    if (place !== undefined) await requireAnswer(place, storageRoot);
    return place !== undefined;
  },
  async database({ catalogUrl, catalogPasswordFile }) {
    const { describeDatabase } = await import('./catalog/postgres/open-postgres-catalog.ts');
    return describeDatabase({ url: catalogUrl!, passwordFile: catalogPasswordFile }, systemClock);
  },
};
