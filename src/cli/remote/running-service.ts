/** A running service writes facts into its data folder for other commands. */
import type { DataFolder } from '../../config/data-folder.ts';
import type { Config } from '../../config/settings.ts';
import { type CliContext, CliError } from '../command.ts';

export interface RunningService {
  /** It has no base path. */
  readonly url: string;
  readonly acceptsOwnTokens: boolean | undefined;
  /** Where there is none, the default policies decide. */
  readonly policyFile: string | undefined;
}

/** Answers undefined if no service listens; after a crash, the one that did. */
export function runningService(
  { holderFile }: DataFolder,
  { fileExists, readFile }: Pick<CliContext, 'fileExists' | 'readFile'>,
): RunningService | undefined {
  if (!fileExists(holderFile)) return undefined;
  const said = JSON.parse(readFile(holderFile).toString('utf8')) as Partial<RunningService>;
  const { url, acceptsOwnTokens, policyFile } = said;
  return url === undefined ? undefined : { url, acceptsOwnTokens, policyFile };
}

/** A running service knows its flags; without one, the environment says how the next one will start. */
export function requireOwnIssuer({ ownIssuer }: Config, service: RunningService | undefined): void {
  if (service?.acceptsOwnTokens ?? ownIssuer) return;
  const who = service === undefined ? 'a service with these settings' : `the service at ${service.url}`;
  throw new CliError(
    `${who} does not accept tokens of the own issuer, which is off where another issuer is set, unless --own-issuer is set`,
  );
}
