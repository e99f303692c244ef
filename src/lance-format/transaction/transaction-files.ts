import { dirname, join } from 'node:path';
import { namesIn } from '../manifest/manifest-files.ts';

/**
 * Whether somebody began to commit on top of version `version` or a later one. The engine writes a transaction into a file
 * of its own, named `<version it builds on>-<uuid>.txn`, and only then the manifest: without such a file there is no commit,
 * nor one that is about to appear. Too often yes for one merge: what made a branch names the branch's first version.
 */
export const hasTransactionOn = (versionsFolder: string, version: number): boolean =>
  namesIn(join(dirname(versionsFolder), '_transactions')).some((name) => Number.parseInt(name, 10) >= version);
