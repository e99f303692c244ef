/** Versions that the engine made in a folder of this service, all of them readable. */
import { listVersions, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { transactionsBetween } from '../../../lance-format/transaction/transaction.ts';

export const newestVersionIn = (versionsFolder: string): number => listVersions(versionsFolder).at(-1) ?? 0;

export function newestManifestIn(versionsFolder: string): { readonly path: string; readonly bytes: Buffer } {
  const found = readManifest(versionsFolder, newestVersionIn(versionsFolder));
  if (found === undefined) throw new Error('no manifest where the engine made a version');
  return found;
}

/** The transactions of the versions after `version`, oldest first. */
export function stepsIn(versionsFolder: string, version: number): readonly Uint8Array[] {
  const newest = newestVersionIn(versionsFolder);
  return transactionsBetween(versionsFolder, version, newest, Number.POSITIVE_INFINITY).map((step) => {
    if (step === undefined) throw new Error('a version of the engine without its transaction');
    return step;
  });
}
