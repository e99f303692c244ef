/** How the files that a process may have open are divided: connections must not take those that tables need. */
import type { Config, SettingName } from './settings.ts';

/** An idle service holds 34; the rest is for fragments that are read and written at the same time. */
const leastFilesForTables = 128;
const filesForTables = 512;

/** Between the two, tables get half. */
export const connectionsUnder = (openFiles: number): number =>
  Math.max(1, Math.floor(openFiles - Math.min(filesForTables, Math.max(leastFilesForTables, openFiles / 2))));

/** Only what nobody has set changes, and only downwards; what was set and cannot be is for `findConflicts` to say. */
export function fitToFiles(given: Config, isDefault: (name: SettingName) => boolean, openFiles: number): Config {
  if (!isDefault('maxConnections')) return given;
  return Object.freeze({ ...given, maxConnections: Math.min(given.maxConnections, connectionsUnder(openFiles)) });
}
