import { OwnIssuer } from '../auth/tokens/own-issuer.ts';
import { dataFolderAt } from '../config/data-folder.ts';
import { optional, required, withDefault } from '../config/options.ts';
import { settings } from '../config/settings.ts';
import { dayMs, durationMs, listOf, text } from '../config/value-types.ts';
import { type Command, write } from './command.ts';
import { credentialSettings, readCommandLine } from './command-line.ts';
import { requireOwnIssuer, runningService } from './running-service.ts';

/** Whom a credential stands for and what it allows. */
export const accessOptions = {
  subject: required(text, { flag: 'subject', doc: 'Whom it stands for.' }),
  scope: required(text, {
    flag: 'scope',
    doc: 'Scopes, separated by spaces, such as "lancegate:read lancegate:write".',
  }),
  groups: optional(listOf(text), { flag: 'group', doc: 'Groups that a policy can name.' }),
};

export const splitScopes = (scope: string): readonly string[] => scope.split(/\s+/).filter((word) => word !== '');

const options = {
  ...accessOptions,
  expires: withDefault(durationMs(1_000, 3_660 * dayMs), {
    flag: 'expires',
    default: '12h',
    doc: 'How long the token is valid; it cannot be taken back before.',
  }),
};

export const tokenCommand: Command = {
  name: 'token',
  usage: 'token --subject S --scope "…" [--expires 12h] [--data DIR | --catalog URL]',
  summary: 'Prints an access token of the own issuer; works while the service runs.',
  options: [...Object.values(options), ...credentialSettings.map((name) => settings[name])],

  async run(args, context) {
    const syntax = { options, settingNames: credentialSettings };
    const { options: given, reading } = readCommandLine(syntax, args, context);
    await using credentials = await context.openCredentials(reading.values);
    requireOwnIssuer(reading.values, runningService(dataFolderAt(reading.values.dataFolder), context));
    const issuer = await OwnIssuer.open(credentials.issuerKeys, context.clock);
    const token = await issuer.mint({
      subject: given.subject,
      scopes: splitScopes(given.scope),
      groups: given.groups ?? [],
      expiresAfterMs: given.expires,
    });
    await write(context.stdout, `${token}\n`);
  },
};
