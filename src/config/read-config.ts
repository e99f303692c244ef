import { findConflicts } from './conflicts.ts';
import { type EnvironmentSources, readEnvironment } from './environment.ts';
import { fitDefaults, type Machine } from './fit-defaults.ts';
import { type Found, type Option, type OptionReading, readOptions } from './options.ts';

import { type SettingName, settings } from './settings.ts';

export interface ConfigSources extends EnvironmentSources {
  /** By flag, as `parseArguments` found them. */
  readonly flags: ReadonlyMap<string, Found>;
  /** Where relative paths start. */
  readonly cwd: string;
  readonly machine: Machine;
}

export type ConfigReading = OptionReading<typeof settings>;

/**
 * The configuration: a flag before the environment before the default. Never stops at the first mistake: everything
 * that is wrong is in `problems`, and where there are problems `values` must not be used. No problem shows a secret.
 */
export function readConfig(sources: ConfigSources): ConfigReading {
  const environment = readEnvironment(sources);
  const find = (setting: Option<unknown>): Found | undefined =>
    sources.flags.get(setting.flag) ?? environment.found.get(setting.flag) ?? findDefault(setting);
  const dataFolder = find(settings.dataFolder)!.text;
  const reading = readOptions(
    settings,
    (setting) => {
      const found = find(setting);
      return found?.source === 'default' ? { ...found, text: found.text.replace('<data>', () => dataFolder) } : found;
    },
    sources.cwd,
  );
  const problems = [...environment.problems, ...reading.problems];
  // Values that could not be read would only make misleading conflicts.
  if (reading.problems.length > 0) return { ...reading, problems };
  const isDefault = (name: SettingName): boolean => reading.sources[name] === 'default';
  const values = fitDefaults(reading.values, isDefault, sources.machine);
  return { ...reading, values, problems: [...problems, ...findConflicts(values, sources.machine)] };
}

const findDefault = (setting: Option<unknown>): Found | undefined =>
  setting.default === undefined ? undefined : { text: setting.default, source: 'default' };
