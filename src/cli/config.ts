import { configurationMarkdown, showConfig } from '../config/describe-config.ts';
import { withDefault } from '../config/options.ts';
import { boolean } from '../config/value-types.ts';
import { type Command, write } from './command.ts';
import { allSettingNames, readCommandLine } from './command-line.ts';

const options = {
  markdown: withDefault(boolean, {
    flag: 'markdown',
    default: 'false',
    doc: 'Print docs/configuration.md instead: every setting, and nothing of this machine.',
  }),
};

export const configCommand: Command = {
  name: 'config',
  summary:
    'Prints the effective configuration and where each value comes from; secrets are masked. Takes all flags of serve.',
  options: Object.values(options),

  async run(args, context) {
    const syntax = { options, settingNames: allSettingNames };
    const { options: given, reading } = readCommandLine(syntax, args, context);
    await write(context.stdout, given.markdown ? configurationMarkdown() : showConfig(reading));
  },
};
