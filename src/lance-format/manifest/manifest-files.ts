import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const largestVersion = 2n ** 64n - 1n;
const digits = /^(\d{1,20})\.manifest$/;

/**
 * The two names a version's manifest can have: what is left up to the largest version (so that a listing begins with the
 * newest), or, in datasets begun by early releases of Lance, the version itself.
 */
export const manifestNames = (version: number): readonly [string, string] => [
  `${largestVersion - BigInt(version)}.manifest`,
  `${version}.manifest`,
];

/** undefined for a name that is not a manifest's. */
export function versionOfManifestName(name: string): number | undefined {
  const text = digits.exec(name)?.[1];
  if (text === undefined) return undefined;
  const number = BigInt(text);
  if (number > largestVersion) return undefined;
  // No dataset has half of all versions, so which scheme a name follows shows in its size.
  return Number(number > largestVersion / 2n ? largestVersion - number : number);
}

/** Read at once: a manifest was just written or is about to be used, so it is in memory. undefined where there is none. */
export function readManifest(
  versionsFolder: string,
  version: number,
): { readonly path: string; readonly bytes: Buffer } | undefined {
  for (const name of manifestNames(version)) {
    const path = join(versionsFolder, name);
    try {
      return { path, bytes: readFileSync(path) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return undefined;
}

/** Ascending; none for a folder that is missing. */
export function listVersions(versionsFolder: string): readonly number[] {
  return namesIn(versionsFolder)
    .map(versionOfManifestName)
    .filter((version) => version !== undefined)
    .sort((a, b) => a - b);
}

/** What a folder holds; nothing where it is missing. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
