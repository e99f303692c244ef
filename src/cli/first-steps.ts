/** What `serve` prints for a new user: commands that work when pasted into bash. */
import { join, relative, resolve } from 'node:path';
import { environmentFileName, environmentName } from '../config/environment.ts';
import { type Config, type SettingName, settings } from '../config/settings.ts';
import type { CliContext } from './command.ts';

const sampleFile = 'node_modules/vega-datasets/data/us-state-capitals.json';
/** One row that the sample has, changed, and one that it has not. */
const changedRows = [
  { lon: -134.42, lat: 58.3, state: 'Alaska', city: 'Juneau (capital since 1906)' },
  { lon: -66.1057, lat: 18.4655, state: 'Puerto Rico', city: 'San Juan' },
];

export function firstSteps(config: Config, url: string, context: CliContext): string {
  const upsert = `printf '%s\\n' ${changedRows.map((row) => quote(JSON.stringify(row))).join(' ')}`;
  return [
    '',
    '# a token, kept in TOKEN:',
    tokenStep(config, context),
    '# a table, from a file:',
    `${context.invocation} arrow ${quote(samplePath(context))} | ${post(config, url, 'create')}`,
    '# an upsert into it: one row changed, one new:',
    `${upsert} | ${context.invocation} arrow - | ${post(config, url, 'merge_insert?on=state')}`,
    '',
    '',
  ].join('\n');
}

function tokenStep(config: Config, context: CliContext): string {
  if (!config.ownIssuer) return 'TOKEN=… # from your authorization server';
  const { requires, flags } = stateOf(config, context);
  return `TOKEN=$(${requires}${context.invocation} token --subject me --scope 'lancegate:write'${flags})`;
}

/** What leads a command to the issuer key of this service. Without it the command would make a key of its own. */
function stateOf(config: Config, { cwd }: CliContext): { readonly requires: string; readonly flags: string } {
  const { catalogUrl, catalogPasswordFile, dataFolder } = config;
  if (catalogUrl === undefined) {
    const isDefault = dataFolder === resolve(cwd, settings.dataFolder.default!);
    return { requires: '', flags: isDefault ? '' : flagOf('dataFolder', dataFolder) };
  }
  if (new URL(catalogUrl).password !== '') return { requires: catalogInEnvironment, flags: '' };
  const password = catalogPasswordFile === undefined ? '' : flagOf('catalogPasswordFile', catalogPasswordFile);
  return { requires: '', flags: flagOf('catalogUrl', catalogUrl) + password };
}

const flagOf = (name: SettingName, value: string): string => ` --${settings[name].flag} ${quote(value)}`;

/** A password is not shown, and came by one of these variables. A shell without them says so. */
const catalogInEnvironment = `: "\${${environmentName(settings.catalogUrl)}:-\${${environmentFileName(settings.catalogUrl)}:?set this variable, or the one without _FILE, as for the service}}" && `;

/** An installation without development packages has no sample; the command then shows where a file of one's own goes. */
function samplePath({ packageFolder, cwd, fileExists }: CliContext): string {
  const path = join(packageFolder, sampleFile);
  return fileExists(path) ? relative(cwd, path) : 'your-rows.json';
}

const post = (config: Config, url: string, operation: string): string =>
  [
    `curl -sS -w '\\n' ${quote(`${url}${config.basePath}/v1/table/capitals/${operation}`)}`,
    `-H "Authorization: Bearer $TOKEN"`,
    `-H 'Content-Type: application/vnd.apache.arrow.stream'`,
    '--data-binary @-',
  ].join(' ');

/** One word for a POSIX shell. */
const quote = (word: string): string => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
