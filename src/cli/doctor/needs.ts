/** Looks at what the service asks over the network: object store, database, authorization servers. */
import type { Config } from '../../config/settings.ts';
import type { Clock } from '../../kernel/clock.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { CliError } from '../command.ts';
import { type Finding, failed, type Look, ok, plain, reasonOf } from './finding.ts';

export const lookAtStore: Look = async ({ config, context }) => {
  const { storageRoot } = config;
  if (!storageRoot.includes('://')) return ok(`the tables are in the folder ${storageRoot}`);
  try {
    await context.probes.objectStore(config);
    return ok(`${storageRoot} answers`);
  } catch (error) {
    const said = error instanceof Error ? plain(error.message) : reasonOf(error);
    return failed(said, 'check --storage-root, and region, endpoint and credentials in LANCEGATE_STORAGE_OPTIONS');
  }
};

export const lookAtDatabase: Look = async ({ config, context }) => {
  if (config.catalogUrl === undefined) return ok(`none: the catalog is a file in ${config.dataFolder}`);
  const askedMs = context.clock.nowMs();
  try {
    const found = await context.probes.database(config.catalogUrl, config);
    const { name, serverVersion, nowMs, isStandby, pendingMigrations } = found;
    const said = `${plain(name)} answers, PostgreSQL ${plain(serverVersion)}`;
    if (isStandby) return failed(`${said}; it is a standby, which refuses writes`, 'name the primary by --catalog');
    const schema = pendingMigrations === 0 ? '' : `; a start changes its schema (${pendingMigrations} steps)`;
    const clock = { whose: 'the database', aheadMs: nowMs - (askedMs + context.clock.nowMs()) / 2 };
    return { ...ok(said + schema), clock };
  } catch (error) {
    const said = error instanceof Error ? plain(error.message) : reasonOf(error);
    return failed(said, 'check that it runs, and the host, database, user and password of --catalog');
  }
};

export const lookAtIssuers: Look = async ({ config, context }) => {
  const { oidcIssuers = [], introspectionIssuer, introspectionEndpoint } = config;
  const asked = [
    ...oidcIssuers.map((issuer) => lookAtIssuer(issuer, 'jwks_uri', config, context.clock)),
    ...(introspectionIssuer === undefined || introspectionEndpoint !== undefined
      ? []
      : [lookAtIssuer(introspectionIssuer, 'introspection_endpoint', config, context.clock)]),
  ];
  if (asked.length > 0) return Promise.all(asked);
  return ok(
    introspectionEndpoint === undefined ? 'none is set' : `none is discovered: ${introspectionEndpoint} is set`,
  );
};

const answersWithinMs = 5_000;
const silent = { warn: () => undefined };

/** The issuer is asked as the service asks it, at the start and later; `needed` is what the service needs of its metadata. */
async function lookAtIssuer(
  issuer: string,
  needed: 'jwks_uri' | 'introspection_endpoint',
  { allowInsecureIssuer: allowHttp }: Config,
  clock: Clock,
): Promise<Finding> {
  // It is loaded for this alone, since most services have no other issuer.
  const { issuerMetadata, requireSecure } = await import('../../auth/tokens/issuer-metadata.ts');
  const { boundedFetch } = await import('../../auth/remote-document.ts');
  try {
    const metadata = await issuerMetadata({ issuer, allowHttp, timeoutMs: answersWithinMs }, clock, silent).current();
    const url = requireSecure(metadata[needed] ?? '', allowHttp, `${needed} of ${issuer}`);
    if (needed !== 'jwks_uri') return ok(`${issuer} answers discovery`);
    const askedMs = clock.nowMs();
    const answer = await boundedFetch(url, { method: 'GET', signal: AbortSignal.timeout(answersWithinMs) });
    if (!answer.ok) throw new CliError(`${url} answers ${answer.status}`);
    const document: unknown = await answer.json();
    const keys = isObject(document) ? document.keys : undefined;
    if (!Array.isArray(keys) || keys.length === 0) throw new CliError(`${url} has no keys`);
    const clocks = clockOf(issuer, answer.headers, (askedMs + clock.nowMs()) / 2);
    return {
      ...ok(`${issuer} answers discovery, and has ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}`),
      ...clocks,
    };
  } catch (error) {
    return failed(
      `${issuer} cannot be used: ${reasonOf(error)}`,
      'check the URL, which tokens have in "iss", and that this machine reaches it and trusts its certificate',
    );
  }
}

/** A Date header has whole seconds: on average half of one has passed since. */
function clockOf(issuer: string, headers: Headers, seenMs: number): Pick<Finding, 'clock'> {
  const saidMs = Date.parse(headers.get('date') ?? '');
  return Number.isNaN(saidMs) ? {} : { clock: { whose: issuer, aheadMs: saidMs + 500 - seenMs } };
}
