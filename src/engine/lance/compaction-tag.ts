import { rmSync } from 'node:fs';
import { join } from 'node:path';

/** Stands on main's newest version while fragments are put together (`upkeep.ts`), and only one caller does that at a time. */
export const compactionTag = 'lancegate-compaction';

/** After a crash: the tag would keep versions from being pruned, and a torn one would fail every listing of tags. */
export function removeLeftoverTag(datasetPath: string): void {
  rmSync(join(datasetPath, '_refs/tags', `${compactionTag}.json`), { force: true });
}
