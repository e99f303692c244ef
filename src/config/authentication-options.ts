/** The part of the table of settings (settings.ts) that says whose credentials are accepted. */
import { optional, withDefault } from './options.ts';
import { boolean, durationMs, httpUrl, listOf, oneOf, path, secret, text } from './value-types.ts';

/** They are asymmetric: with a symmetric algorithm, a service that verifies could also sign. */
const algorithms = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const),
  ...(['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] as const),
] as const;

export const authenticationOptions = {
  ownIssuer: withDefault(boolean, {
    flag: 'own-issuer',
    default: 'true',
    doc: 'Accept the tokens that `lancegate token` makes, signed with the key in the data folder. If this is not set, naming an authorization server turns it off.',
  }),
  oidcIssuers: optional(listOf(httpUrl), {
    flag: 'oidc-issuer',
    doc: 'Authorization servers whose JWT access tokens are accepted, as the tokens spell them in `iss`.',
  }),
  oidcAudiences: optional(listOf(text), {
    flag: 'oidc-audience',
    doc: 'A token of those servers must name one of these in `aud`. Required with them.',
  }),
  oidcAlgorithms: withDefault(listOf(oneOf(algorithms)), {
    flag: 'oidc-algorithms',
    default: algorithms.join(','),
    doc: 'Signature algorithms accepted from those servers.',
  }),
  allowInsecureIssuer: withDefault(boolean, {
    flag: 'allow-insecure-issuer',
    default: 'false',
    doc: 'Allow `http://` authorization servers on other machines. For tests: a machine in between can then forge tokens.',
  }),
  clockSkewMs: withDefault(durationMs(0, 300_000), {
    flag: 'clock-skew',
    default: '30s',
    doc: 'How far the clocks of issuer and service may differ when the times in a token are judged.',
  }),
  groupClaims: withDefault(listOf(text), {
    flag: 'group-claims',
    default: 'groups',
    doc: 'Claims that hold the groups a policy can name; `realm_access.roles` reaches into a nested claim.',
  }),
  introspectionIssuer: optional(httpUrl, {
    flag: 'introspection-issuer',
    doc: 'Authorization server that is asked about opaque tokens (RFC 7662). Requires a client, its secret and an audience.',
  }),
  introspectionEndpoint: optional(httpUrl, {
    flag: 'introspection-endpoint',
    doc: 'Its introspection endpoint, if its metadata does not name it.',
  }),
  introspectionClientId: optional(text, {
    flag: 'introspection-client-id',
    doc: 'Who this service is to it.',
  }),
  introspectionClientSecret: optional(secret, {
    flag: 'introspection-client-secret',
    doc: 'The secret of that client.',
  }),
  introspectionAudience: optional(text, {
    flag: 'introspection-audience',
    doc: 'What its answers must name in `aud`.',
  }),
  introspectionAudienceRequired: withDefault(boolean, {
    flag: 'introspection-audience-required',
    default: 'true',
    doc: 'Refuse answers that name no audience at all. Turn it off only where that server issues tokens for this service alone.',
  }),
  policyFile: optional(path, {
    flag: 'policy-file',
    doc: 'Cedar policies that decide who may do what. The service reads the file again when it changes and on SIGHUP. Without it, the scopes `lancegate:read`, `lancegate:write` and `lancegate:admin` decide.',
  }),
};
