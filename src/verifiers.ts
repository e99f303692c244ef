/** Composition of what decides whether a credential is good, and whose it is. */
import { ApiKeyStore } from './auth/tokens/api-keys.ts';
import { IntrospectionVerifier, introspectionDefaults } from './auth/tokens/introspection-verifier.ts';
import { JwtVerifier, jwtIssuerDefaults } from './auth/tokens/jwt-verifier.ts';
import { OwnIssuer } from './auth/tokens/own-issuer.ts';
import type { ReplicaTokens } from './auth/tokens/replica-tokens.ts';
import type { Verifier } from './auth/tokens/verifier.ts';
import type { Credentials } from './catalog/credentials.ts';
import type { Config } from './config/settings.ts';
import type { Clock } from './kernel/clock.ts';
import type { Logger } from './telemetry/logger.ts';

interface VerifierParts {
  readonly config: Config;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** The log says it. */
export const acceptedCredentials = ({
  ownIssuer,
  oidcIssuers = [],
  introspectionIssuer,
}: Config): readonly string[] => [
  'API keys',
  ...(ownIssuer ? ['tokens of the own issuer (lancegate token)'] : []),
  ...oidcIssuers.map((issuer) => `JWTs of ${issuer}`),
  ...(introspectionIssuer === undefined ? [] : [`opaque tokens that ${introspectionIssuer} knows`]),
];

export async function verifiers(
  { config, logger, clock }: VerifierParts,
  { apiKeys, issuerKeys }: Credentials,
  /** Other replicas sign them, which vouch for the clients whose requests they forward. */
  tokens: ReplicaTokens | undefined,
): Promise<readonly Verifier[]> {
  const own = config.ownIssuer ? [await OwnIssuer.open(issuerKeys, clock, logger)] : [];
  return [
    new ApiKeyStore(apiKeys, clock),
    ...own,
    ...jwtVerifiers(config, clock, logger),
    ...(tokens === undefined ? [] : [tokens]),
    ...introspectionVerifiers(config, clock, logger),
  ];
}

const jwtVerifiers = (config: Config, clock: Clock, logger: Logger): readonly Verifier[] =>
  (config.oidcIssuers ?? []).map(
    (issuer) =>
      new JwtVerifier(
        {
          ...jwtIssuerDefaults,
          issuer,
          audiences: config.oidcAudiences ?? [],
          algorithms: config.oidcAlgorithms,
          clockSkewMs: config.clockSkewMs,
          groupClaims: config.groupClaims,
          allowHttp: config.allowInsecureIssuer,
        },
        clock,
        logger,
      ),
  );

function introspectionVerifiers(config: Config, clock: Clock, logger: Logger): readonly Verifier[] {
  const { introspectionIssuer: issuer, introspectionClientId: clientId, introspectionClientSecret } = config;
  if (issuer === undefined || clientId === undefined || introspectionClientSecret === undefined) return [];
  const verifier = new IntrospectionVerifier(
    {
      ...introspectionDefaults,
      issuer,
      endpoint: config.introspectionEndpoint,
      clientId,
      clientSecret: introspectionClientSecret,
      audiences: config.introspectionAudience === undefined ? [] : [config.introspectionAudience],
      audienceRequired: config.introspectionAudienceRequired,
      groupClaims: config.groupClaims,
      allowHttp: config.allowInsecureIssuer,
    },
    clock,
    logger,
  );
  return [verifier];
}
