/** Scopes of a credential that is to be made, compared with those that the policies of its service ask for. */
import { defaultScopes } from '../../auth/policy/actions.ts';
import type { Config } from '../../config/settings.ts';
import { didYouMean } from '../../kernel/nearest-word.ts';
import { type CliContext, CliError } from '../command.ts';
import type { RunningService } from '../remote/running-service.ts';

/** Policies can ask for thousands of scopes. */
const mostShown = 20;

/**
 * `CliError` for a scope that no policy knows, with which a client is refused everywhere. A running service knows its policies;
 * without one, the settings of this command say which the next one will have.
 */
export async function requireKnownScopes(
  scopes: readonly string[],
  config: Config,
  service: RunningService | undefined,
  context: Pick<CliContext, 'readFile'>,
): Promise<void> {
  const { policyFile } = service ?? config;
  const known = policyFile === undefined ? defaultScopes : await scopesOfFile(policyFile, context);
  const unknown = known === undefined ? [] : scopes.filter((scope) => !known.has(scope));
  if (known === undefined || unknown.length === 0) return;
  const lines = unknown.map((scope) => {
    const meant = didYouMean(scope, known, (found) => JSON.stringify(found));
    return `no policy knows the scope ${JSON.stringify(scope)}${meant}`;
  });
  const which = policyFile === undefined ? 'the default policies' : `the policies of ${policyFile}`;
  const other = service === undefined ? '--policy-file names other policies, ' : '';
  const what = `${which} know ${show([...known])}; ${other}--allow-unknown takes any scope`;
  throw new CliError([...lines, what].join('\n'));
}

async function scopesOfFile(
  path: string,
  { readFile }: Pick<CliContext, 'readFile'>,
): Promise<ReadonlySet<string> | undefined> {
  try {
    // Loaded for this alone: it is larger than the rest of the command.
    const { knownScopes } = await import('../../auth/policy/known-scopes.ts');
    return knownScopes(readFile(path).toString('utf8'));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(
      `the scopes cannot be compared with the policies of ${path}, which --allow-unknown leaves out: ${why}`,
    );
  }
}

function show(scopes: readonly string[]): string {
  const shown = scopes.slice(0, mostShown).join(', ');
  return scopes.length > mostShown ? `${shown} and ${scopes.length - mostShown} more` : shown;
}
