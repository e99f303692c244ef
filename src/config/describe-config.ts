import { entriesOf, paired, pairedInEach } from '../kernel/paired.ts';
import { environmentFileName, environmentName } from './environment.ts';
import type { ConfigReading } from './read-config.ts';
import { type Group, groups, type Setting, settings } from './settings.ts';

export interface EffectiveSetting {
  readonly flag: string;
  /** It is as a flag would have it, with secrets masked; null where it is not set. */
  readonly value: string | null;
  /** Where the value came from: `--port`, `LANCEGATE_PORT`, `default`. */
  readonly source: string;
}

export const effectiveSettings = ({ values, sources }: ConfigReading): EffectiveSetting[] =>
  Object.entries<Setting>(settings).map(([name, { flag, type }]) => {
    const value = new Map<string, unknown>(Object.entries(values)).get(name);
    return { flag, value: value === undefined ? null : type.show(value), source: sources[name] ?? 'default' };
  });

/** Each setting has a line: flag, value, where it came from. */
export const showConfig = (effective: readonly EffectiveSetting[]): string =>
  alignColumns(effective.map(({ flag, value, source }) => [flag, value ?? '(not set)', source]));

/** Returns all of docs/configuration.md. */
export function configurationMarkdown(): string {
  const ofGroup = (name: Group) => Object.values<Setting>(settings).filter(({ group }) => group === name);
  const { former, ...present } = groups;
  const parts = entriesOf(present).flatMap(([name, title]) => [`## ${title}`, ...ofGroup(name).map(settingMarkdown)]);
  const variables = ofGroup('former').map((setting) => `\`${environmentName(setting)}\``);
  const end = `This release takes these, and their flags, and warns; the next one refuses them: ${variables.join(', ')}.`;
  return `${[markdownIntroduction, ...parts, `## ${former}`, end].join('\n\n')}\n`;
}

const markdownIntroduction = `# Configuration

<!-- Made by \`npm run --silent lancegate -- config --markdown\` from src/config/settings.ts. -->

Every setting is a flag of \`lancegate serve\` and an environment variable. The flag wins over the variable, the variable
over the default; an empty variable counts as absent. \`lancegate config\` prints what is in effect and where each value
came from, with secrets masked. All mistakes are reported at once, unknown \`LANCEGATE_*\` variables included, and the
service does not start.

- Sizes: \`4096\`, \`64KiB\`, \`256MiB\`, \`1GiB\`; \`KB\`, \`MB\` and \`GB\` are powers of ten.
- Durations: \`500ms\`, \`30s\`, \`5m\`, \`1h30m\`.
- Lists: separated by commas, or the flag repeated.
- Switches: \`--own-issuer\`, \`--no-own-issuer\`, \`--own-issuer=false\`; as a variable \`true\` or \`false\`.
- Secrets: better in the variable, or in a file that the variable with \`_FILE\` at its end names, than in a flag, which
  other users of the machine can see.

In Kubernetes, a Service called \`lancegate\` puts variables such as \`LANCEGATE_PORT=tcp://…\` into every pod of its namespace:
set \`enableServiceLinks: false\`, or call it something else.`;

function settingMarkdown(setting: Setting): string {
  const variables = [environmentName(setting), environmentFileName(setting)].filter((name) => name !== undefined);
  return [
    `### \`--${setting.flag}\``,
    setting.doc,
    [
      `- Variable: ${variables.map((name) => `\`${name}\``).join(' or ')}`,
      `- Value: ${setting.type.expects}`,
      `- Default: ${setting.default === undefined ? 'not set' : `\`${setting.default}\``}`,
    ].join('\n'),
  ].join('\n\n');
}

function alignColumns(rows: readonly (readonly string[])[]): string {
  const widths = pairedInEach(rows[0] ?? [], rows).map(([, cells]) => Math.max(...cells.map(({ length }) => length)));
  const lines = rows.map((row) => paired(row, widths).map(([cell, width]) => cell.padEnd(width)));
  return `${lines.map((cells) => cells.join('  ').trimEnd()).join('\n')}\n`;
}
