/**
 * `lancegate maintain`: asks the running service to look after a table now. The service holds the data folder, so it is
 * asked over HTTP, at the address it left there, with a short-lived token of the folder's own issuer.
 */
import { OwnIssuer } from '../auth/own-issuer.ts';
import { type DataFolder, dataFolderAt } from '../config/data-folder.ts';
import { optionalOption } from '../config/options.ts';
import { settings } from '../config/settings.ts';
import { httpUrl } from '../config/value-types.ts';
import { CliError } from './cli-error.ts';
import type { Command } from './command.ts';
import { readCommandLine } from './command-line.ts';
import { type CliContext, write } from './context.ts';

const options = {
  url: optionalOption(httpUrl, {
    flag: 'url',
    doc: 'Where the service listens, base path included, if not where it says in the data folder.',
  }),
};

const tokenLivesMs = 60_000;

export const maintainCommand: Command = {
  name: 'maintain',
  usage: 'maintain TABLE [--data DIR] [--url URL]',
  summary: 'Tidies, indexes and prunes a table now, and prints what was done. Needs the running service.',
  options: [...Object.values(options), settings.dataFolder, settings.basePath],

  async run(args, context) {
    const syntax = { options, settingNames: ['dataFolder', 'basePath'], positionals: ['TABLE'] } as const;
    const { options: given, reading, positionals } = readCommandLine(syntax, args, context);
    const { dataFolder, basePath, ownIssuer } = reading.values;
    if (!ownIssuer) throw new CliError('the own issuer is turned off: the service would refuse the token');
    const folder = dataFolderAt(dataFolder);
    const service = given.url ?? `${announcedUrl(folder, context)}${basePath}`;
    const answer = await ask(`${service}/v1/table/${encodeURIComponent(positionals[0]!)}/maintain`, folder, context);
    await write(context.stdout, answer.jobs.map((job) => `${JSON.stringify(job)}\n`).join(''));
  },
};

function announcedUrl({ holderFile }: DataFolder, { fileExists, readFile }: CliContext): string {
  if (!fileExists(holderFile)) throw notRunning();
  const { url } = JSON.parse(readFile(holderFile).toString('utf8')) as { url?: string };
  if (url === undefined) throw notRunning();
  return url;
}

const notRunning = (): CliError =>
  new CliError('no service runs on this data folder: start it with `lancegate serve`, or name another with --data');

async function ask(url: string, { issuerKeyFile }: DataFolder, { clock }: CliContext): Promise<{ jobs: object[] }> {
  const issuer = await OwnIssuer.open(issuerKeyFile, clock);
  const access = { subject: 'lancegate maintain', scopes: ['lancegate:admin'], expiresAfterMs: tokenLivesMs };
  const headers = { authorization: `Bearer ${await issuer.mint(access)}` };
  const response = await fetch(url, { method: 'POST', headers }).catch((cause: unknown) => {
    throw new CliError(`the service does not answer at ${url}`, { cause });
  });
  const body = (await response.json()) as { jobs?: object[]; error?: string };
  if (response.ok && body.jobs !== undefined) return { jobs: body.jobs };
  throw new CliError(body.error ?? `the service answered ${response.status}`);
}
