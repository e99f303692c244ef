import { findConflicts } from './conflicts.ts';
import { type Found, type OptionReading, readOptions } from './options.ts';
import { environmentFileName, environmentName, isOurVariable, type Setting, settings } from './settings.ts';
import { didYouMean } from './suggest.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ConfigSources {
  /** By flag, as `parseArguments` found them. */
  readonly flags: ReadonlyMap<string, Found>;
  readonly env: Environment;
  /** Where relative paths start. */
  readonly cwd: string;
  readonly readTextFile: (path: string) => string;
}

export type ConfigReading = OptionReading<typeof settings>;

/**
 * The configuration: a flag before the environment before the default. Never stops at the first mistake: everything
 * that is wrong is in `problems`, and where there are problems `values` must not be used. No problem shows a secret.
 */
export function readConfig(sources: ConfigSources): ConfigReading {
  const environment = readEnvironment(sources);
  const find = (setting: Setting<unknown>): Found | undefined =>
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
  return {
    ...reading,
    problems: reading.problems.length === 0 ? [...problems, ...findConflicts(reading.values)] : problems,
  };
}

const findDefault = (setting: Setting<unknown>): Found | undefined =>
  setting.default === undefined ? undefined : { text: setting.default, source: 'default' };

interface EnvironmentReading {
  readonly found: ReadonlyMap<string, Found>;
  readonly problems: readonly string[];
}

/** An empty variable counts as absent, because container tools cannot always leave one out. */
function readEnvironment({ env, readTextFile }: ConfigSources): EnvironmentReading {
  const found = new Map<string, Found>();
  const problems: string[] = [];
  for (const setting of Object.values<Setting<unknown>>(settings)) {
    const name = environmentName(setting);
    const fileName = environmentFileName(setting);
    const file = fileName && env[fileName];
    if (env[name] && file) problems.push(`${name} and ${fileName} are both set; use one of them`);
    else if (env[name]) found.set(setting.flag, { text: env[name], source: name });
    else if (file) {
      const text = readSecretFile(readTextFile, file);
      if (text === undefined) problems.push(`${fileName}: cannot read ${JSON.stringify(file)}`);
      else found.set(setting.flag, { text, source: fileName! });
    }
  }
  return { found, problems: [...unknownVariables(env), ...problems] };
}

/** Files made by editors and secret stores often end in a newline that is not part of the secret. */
function readSecretFile(readTextFile: (path: string) => string, path: string): string | undefined {
  try {
    return readTextFile(path).replace(/\r?\n$/, '');
  } catch {
    return undefined; // translated: the caller names the variable and the path
  }
}

function unknownVariables(env: Environment): readonly string[] {
  const known = new Set(
    Object.values<Setting<unknown>>(settings).flatMap((setting) => [
      environmentName(setting),
      environmentFileName(setting) ?? environmentName(setting),
    ]),
  );
  return Object.keys(env)
    .filter((name) => isOurVariable(name) && !known.has(name))
    .map((name) => `unknown environment variable ${name}${didYouMean(name, known)}`);
}
