import { findConflicts } from './conflicts.ts';
import { type EnvironmentSources, environmentName, readEnvironment } from './environment.ts';
import { fitDefaults, type Machine } from './fit-defaults.ts';
import { type Found, type Option, type OptionReading, readOptions } from './options.ts';
import { type SettingName, settings } from './settings.ts';

interface ConfigSources extends EnvironmentSources {
  /** `parseArguments` has found them, by flag. */
  readonly flags: ReadonlyMap<string, Found>;
  /** Relative paths start there. */
  readonly cwd: string;
  readonly machine: Machine;
}

export type ConfigReading = OptionReading<typeof settings>;

/**
 * Reads the configuration: a flag goes before the environment, and that before the default. Never stops at the first mistake: everything
 * that is wrong is in `problems`, and where there are problems `values` must not be used. No problem shows a secret.
 */
export function readConfig(sources: ConfigSources): ConfigReading {
  const environment = readEnvironment(sources);
  const given = ({ flag }: Option<unknown>): Found | undefined =>
    sources.flags.get(flag) ?? environment.found.get(flag);
  const dataFolder = given(settings.dataFolder)?.text ?? settings.dataFolder.default;
  const storageRoot = { text: settings.storageRoot.default.replace('<data>', () => dataFolder), source: 'default' };
  const reading = readOptions(
    settings,
    (setting) => given(setting) ?? (setting === settings.storageRoot ? storageRoot : undefined),
    sources.cwd,
  );
  const problems = [...environment.problems, ...reading.problems, ...shownPasswords(reading), ...shownSecrets(reading)];
  // Values that could not be read would only make misleading conflicts.
  if (reading.problems.length > 0) return { ...reading, problems };
  const isDefault = (name: SettingName): boolean => reading.sources[name] === 'default';
  const values = fitDefaults(reading.values, isDefault, sources.machine);
  return { ...reading, values, problems: [...problems, ...findConflicts(values, sources.machine)] };
}

/** Every user of the machine sees the command lines of processes. */
function* shownPasswords({ values: { catalogUrl }, sources }: ConfigReading): Iterable<string> {
  const name = `--${settings.catalogUrl.flag}`;
  if (catalogUrl === undefined || sources.catalogUrl !== name || new URL(catalogUrl).password === '') return;
  const variable = environmentName(settings.catalogUrl);
  yield `${name}: other users of this machine can see a password in a flag; set ${variable} instead, or give the password by --${settings.catalogPasswordFile.flag}, PGPASSWORD or PGPASSFILE`;
}

/** Options that say where a store is and how to talk to it. Any other may be a secret, also one that the engine will know some day. */
const plainOption =
  /region|endpoint|allow_http$|timeout|retries|virtual_hosted|account_name|access_key_id|(client|tenant)_id$|bucket|checksum/i;
/** It is a URL with a password, or with a query, as a signature of Azure is. */
const withSecret = /^[a-z]+:\/\/(?:[^/]*@|.*\?)/i;

function* shownSecrets({ values, sources }: ConfigReading): Iterable<string> {
  for (const name of ['storageOptions', 'introspectionClientSecret'] as const) {
    const flag = `--${settings[name].flag}`;
    const value = values[name];
    if (sources[name] !== flag || value === undefined) continue;
    const isPlain = ([key, text]: [string, string]): boolean => plainOption.test(key) && !withSecret.test(text);
    if (typeof value !== 'string' && Object.entries(value).every(isPlain)) continue;
    const variable = environmentName(settings[name]);
    yield `${flag}: other users of this machine can see a secret in a flag; set ${variable} or ${variable}_FILE instead`;
  }
}
