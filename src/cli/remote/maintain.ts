/** `lancegate maintain`: asks the running service, which holds the tables, to maintain one now. */
import { type Command, write } from '../command.ts';
import { readCommandLine } from '../command-line.ts';
import { serviceClient, serviceFlags, serviceOptions, serviceSettingNames } from './service-client.ts';
import { tableRoute } from './table-commands.ts';

export const maintainCommand: Command = {
  name: 'maintain',
  positionals: 'TABLE',
  summary: 'Compacts, indexes and prunes a table now, and prints what was done. Needs the running service.',
  options: serviceFlags,

  async run(args, context) {
    const syntax = { options: serviceOptions, settingNames: serviceSettingNames, positionals: ['TABLE'] } as const;
    const { options: given, reading, positionals } = readCommandLine(syntax, args, context);
    const service = serviceClient(given, reading.values, context);
    const answer = await service.json<{ readonly jobs: readonly object[] }>(tableRoute(positionals[0], 'maintain'));
    await write(context.stdout, answer.jobs.map((job) => `${JSON.stringify(job)}\n`).join(''));
  },
};
