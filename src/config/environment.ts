/** Settings come from environment variables: this says what each is called, what is there, and what is there that is no setting. */

import { didYouMean } from '../kernel/nearest-word.ts';
import type { Found, Option } from './options.ts';
import { settings } from './settings.ts';

const prefix = 'LANCEGATE_';

export const environmentName = (option: Option<unknown>): string =>
  prefix + option.flag.toUpperCase().replaceAll('-', '_');

/** Commands that ask a service take these flags from the environment, beside the settings. */
export const clientVariables: ReadonlyMap<string, string> = new Map([
  ['url', `${prefix}URL`],
  ['key', `${prefix}KEY`],
]);

/** The variable that names a file with the value; only secrets have one. */
export const environmentFileName = (option: Option<unknown>): string | undefined =>
  option.type.secret ? `${environmentName(option)}_FILE` : undefined;

export type Environment = Readonly<Record<string, string | undefined>>;

export interface EnvironmentSources {
  readonly env: Environment;
  readonly readTextFile: (path: string) => string;
}

interface EnvironmentReading {
  readonly found: ReadonlyMap<string, Found>;
  readonly problems: readonly string[];
}

/** An empty variable counts as absent, because container tools cannot always leave one out. */
export function readEnvironment({ env, readTextFile }: EnvironmentSources): EnvironmentReading {
  const found = new Map<string, Found>();
  const problems: string[] = [];
  for (const setting of Object.values<Option<unknown>>(settings)) {
    const name = environmentName(setting);
    const fileName = environmentFileName(setting);
    const file = fileName && env[fileName];
    if (env[name] && file) problems.push(`${name} and ${fileName} are both set; use one of them`);
    else if (env[name]) found.set(setting.flag, { text: env[name], source: name });
    else if (fileName && file) {
      const text = readSecretFile(readTextFile, file);
      if (text === undefined) problems.push(`${fileName}: cannot read ${JSON.stringify(file)}`);
      else found.set(setting.flag, { text, source: fileName });
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
  const known = new Set([
    ...Object.values<Option<unknown>>(settings).flatMap((setting) => [
      environmentName(setting),
      environmentFileName(setting) ?? environmentName(setting),
    ]),
    ...clientVariables.values(),
  ]);
  return Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !known.has(name))
    .map((name) => `unknown environment variable ${name}${didYouMean(name, known)}`);
}
