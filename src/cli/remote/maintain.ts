/**
 * `lancegate maintain`: asks the running service to maintain a table now. The service holds the data folder, so the command
 * asks over HTTP, at the address that the service left there, with a short-lived token of the own issuer, or with a credential of
 * the operator if that issuer is off.
 */
import { OwnIssuer } from '../../auth/tokens/own-issuer.ts';
import { dataFolderAt } from '../../config/data-folder.ts';
import { optional } from '../../config/options.ts';
import { type Config, settings } from '../../config/settings.ts';
import { httpUrl, path } from '../../config/value-types.ts';
import { type CliContext, CliError, type Command, write } from '../command.ts';
import { credentialSettings, readCommandLine } from '../command-line.ts';
import { type RunningService, requireOwnIssuer, runningService } from './running-service.ts';

const options = {
  url: optional(httpUrl, {
    flag: 'url',
    doc: 'Where the service listens, base path included, if not where it says in the data folder.',
  }),
  credentialFile: optional(path, {
    flag: 'credential-file',
    doc: 'File with an access token or API key that allows MaintainTable. Without it, the command mints a token of the own issuer.',
  }),
};

const settingNames = [...credentialSettings, 'basePath'] as const;

export const maintainCommand: Command = {
  name: 'maintain',
  positionals: 'TABLE',
  summary: 'Compacts, indexes and prunes a table now, and prints what was done. Needs the running service.',
  options: [...Object.values(options), ...settingNames.map((name) => settings[name])],

  async run(args, context) {
    const syntax = { options, settingNames, positionals: ['TABLE'] };
    const { options: given, reading, positionals } = readCommandLine(syntax, args, context);
    const folder = dataFolderAt(reading.values.dataFolder);
    const running = runningService(folder, context);
    const service = given.url ?? `${announcedUrl(running)}${reading.values.basePath}`;
    if (given.credentialFile === undefined) requireOwnIssuer(reading.values, running);
    const credential =
      given.credentialFile === undefined
        ? await ownToken(reading.values, context)
        : context.readFile(given.credentialFile).toString('utf8').trim();
    const answer = await ask(`${service}/v1/table/${encodeURIComponent(positionals[0]!)}/maintain`, credential);
    await write(context.stdout, answer.jobs.map((job) => `${JSON.stringify(job)}\n`).join(''));
  },
};

function announcedUrl(running: RunningService | undefined): string {
  if (running !== undefined) return running.url;
  throw new CliError(
    'no service runs on this data folder: start it with `lancegate serve`, or name another with --data or --url',
  );
}

async function ownToken(config: Config, { clock, openCredentials }: CliContext): Promise<string> {
  await using credentials = await openCredentials(config);
  const issuer = await OwnIssuer.open(credentials.issuerKeys, clock);
  return await issuer.mint({ subject: 'lancegate maintain', scopes: ['lancegate:admin'], expiresAfterMs: 60_000 });
}

async function ask(url: string, credential: string): Promise<{ jobs: object[] }> {
  const headers = { authorization: `Bearer ${credential}` };
  const response = await fetch(url, { method: 'POST', headers }).catch((cause: unknown) => {
    throw new CliError(`the service does not answer at ${url}`, { cause });
  });
  const body = (await response.json()) as { jobs?: object[]; error?: string };
  if (response.ok && body.jobs !== undefined) return { jobs: body.jobs };
  throw new CliError(body.error ?? `the service answered ${response.status}`);
}
