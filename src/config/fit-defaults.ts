/** These defaults depend on the machine or on other settings. Only what is not set changes; `findConflicts` checks the rest. */
import { fitToMemory } from './memory-plan.ts';
import type { Config, SettingName } from './settings.ts';

/** What the machine, or the container, lets one process have. */
export interface Machine {
  readonly memoryBytes: number;
  /** So many may be open at the same time, connections among them; Infinity where the system has no limit. */
  readonly openFiles: number;
}

export function fitDefaults(given: Config, isDefault: (name: SettingName) => boolean, machine: Machine): Config {
  const { ownIssuer, maxConnections } = given;
  return Object.freeze({
    ...fitToMemory(given, isDefault, machine.memoryBytes),
    // The operator of an authorization server wants it to decide who gets in; a key in the data folder must not add others.
    ownIssuer:
      isDefault('ownIssuer') && (given.oidcIssuers !== undefined || given.introspectionIssuer !== undefined)
        ? false
        : ownIssuer,
    maxConnections: isDefault('maxConnections')
      ? Math.min(maxConnections, connectionsUnder(machine.openFiles))
      : maxConnections,
  });
}

/** Tables need files too: half of the open files, from 128 (an idle service holds 34) up to 512. */
export const connectionsUnder = (openFiles: number): number =>
  Math.max(1, Math.floor(openFiles - Math.min(512, Math.max(128, openFiles / 2))));
