/** The part of the table of settings (settings.ts) that says whose credentials are accepted. */
import { optional, type Setting, setting } from './setting.ts';
import { boolean, durationMs, httpUrl, listOf, oneOf, path, secret, text } from './value-types.ts';

/** Asymmetric ones: with a symmetric algorithm, whoever verifies could also sign. */
const algorithms = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const),
  ...(['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] as const),
] as const;

export const authenticationSettings = {
  ownIssuer: setting(boolean, {
    flag: 'own-issuer',
    group: 'authentication',
    default: 'true',
    doc: 'Accept the tokens that `lancegate token` makes, signed with the key in the data folder. If this is not set, setting `--oidc-issuer` or `--introspection-issuer` turns it off.',
  }),
  oidcIssuers: optional(listOf(httpUrl), {
    flag: 'oidc-issuer',
    group: 'authentication',
    doc: 'Authorization servers whose JWT access tokens are accepted, as the tokens spell them in `iss`.',
  }),
  oidcAudiences: optional(listOf(text), {
    flag: 'oidc-audience',
    group: 'authentication',
    doc: 'A token must name one of these in `aud`. Required with `--oidc-issuer`.',
  }),
  oidcAlgorithms: setting(listOf(oneOf(algorithms)), {
    flag: 'oidc-algorithms',
    group: 'authentication',
    default: algorithms.join(','),
    doc: 'Signature algorithms accepted from those servers.',
  }),
  allowInsecureIssuer: setting(boolean, {
    flag: 'allow-insecure-issuer',
    group: 'authentication',
    default: 'false',
    doc: 'Allow `http://` authorization servers on other machines. For tests: whoever is in between can then forge tokens.',
  }),
  clockSkewMs: setting(durationMs(0, 300_000), {
    flag: 'clock-skew',
    group: 'authentication',
    default: '30s',
    doc: 'How far the clocks of issuer and service may differ when the times in a token are judged.',
  }),
  groupClaims: setting(listOf(text), {
    flag: 'group-claims',
    group: 'authentication',
    default: 'groups',
    doc: 'Claims that hold the groups a policy can name; `realm_access.roles` reaches into a nested claim.',
  }),
  introspectionIssuer: optional(httpUrl, {
    flag: 'introspection-issuer',
    group: 'authentication',
    doc: 'Authorization server that is asked about opaque tokens (RFC 7662).',
  }),
  introspectionEndpoint: optional(httpUrl, {
    flag: 'introspection-endpoint',
    group: 'authentication',
    doc: 'Its introspection endpoint, if its metadata does not name it.',
  }),
  introspectionClientId: optional(text, {
    flag: 'introspection-client-id',
    group: 'authentication',
    doc: 'Who this service is to it. Required with `--introspection-issuer`.',
  }),
  introspectionClientSecret: optional(secret, {
    flag: 'introspection-client-secret',
    group: 'authentication',
    doc: 'The secret of that client. Required with `--introspection-issuer`.',
  }),
  introspectionAudience: optional(text, {
    flag: 'introspection-audience',
    group: 'authentication',
    doc: 'What its answers must name in `aud`. Required with `--introspection-issuer`.',
  }),
  introspectionAudienceRequired: setting(boolean, {
    flag: 'introspection-audience-required',
    group: 'authentication',
    default: 'true',
    doc: 'Refuse answers that name no audience at all. Turn it off only where that server issues tokens for this service alone.',
  }),
  introspectionCacheMs: setting(durationMs(0, 3_600_000), {
    flag: 'introspection-cache',
    group: 'authentication',
    default: '30s',
    doc: 'How long an answer of the introspection endpoint is believed; a revoked token lives at most this long.',
  }),
  policyFile: optional(path, {
    flag: 'policy-file',
    group: 'authentication',
    doc: 'Cedar policies that decide who may do what. The service reads the file again when it changes and on SIGHUP. Without it, the scopes `lancegate:read`, `lancegate:write` and `lancegate:admin` decide.',
  }),
} as const satisfies Readonly<Record<string, Setting<unknown>>>;
