import {
  configurationMarkdown,
  type EffectiveSetting,
  effectiveSettings,
  showConfig,
} from '../config/describe-config.ts';
import { optional, withDefault } from '../config/options.ts';
import { boolean, httpUrl } from '../config/value-types.ts';
import { CliError, write } from './command.ts';
import { commandOf } from './command-line.ts';
import { printable } from './remote/printed-rows.ts';
import { serviceClient, serviceOptions } from './remote/service-client.ts';

const options = {
  markdown: withDefault(boolean, {
    flag: 'markdown',
    default: 'false',
    doc: 'Print docs/configuration.md instead: every setting, and nothing of this machine.',
  }),
  ...serviceOptions,
  url: optional(httpUrl, {
    flag: 'url',
    doc: 'Print what the service there was started with, base path included. Needs the right to DescribeConfiguration.',
  }),
  check: withDefault(boolean, {
    flag: 'check',
    default: 'false',
    doc: 'Print only whether the settings fit together; what does not is named, and the exit code is 2.',
  }),
};

export const configCommand = commandOf(
  {
    name: 'config',
    summary:
      'Prints the effective configuration and where each value comes from, of a running service by --url; secrets are masked. Takes all flags of serve.',
    options,
    takesAllSettings: true,
  },
  async ({ options: given, sources, reading }, context) => {
    if (given.markdown) return write(context.stdout, configurationMarkdown());
    if (given.check) return write(context.stdout, 'the settings fit together\n');
    // LANCEGATE_URL alone does not change what `config` means.
    if (sources.url !== '--url') return write(context.stdout, showConfig(effectiveSettings(reading)));
    const service = serviceClient(given, reading.values, context);
    const said = await service.json<{ readonly settings?: readonly EffectiveSetting[] }>('/v1/configuration', {
      method: 'GET',
    });
    if (!Array.isArray(said.settings)) throw new CliError(`what answers at ${service.url} is no lancegate service`);
    await write(context.stdout, showConfig(said.settings.map(printableSetting)));
  },
);

/** Another program may answer, with what a terminal obeys. */
const printableSetting = ({ flag, value, source }: EffectiveSetting): EffectiveSetting => ({
  flag: printable(flag),
  value: value === null ? null : printable(value),
  source: printable(source),
});
