import { lstatSync, mkdirSync } from 'node:fs';

/**
 * Makes the folder in memory again if it is gone: login managers remove it when a user leaves. Then any user may have made one of
 * its name, or a link, who could read and replace what is put there; this throws.
 */
export function makeOwnFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const made = lstatSync(path);
  if (!made.isDirectory() || made.uid !== process.getuid?.())
    throw new Error('the folder in memory is not of this user');
}
