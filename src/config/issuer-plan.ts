/** Whose credentials are accepted where the operator says so of some issuers only. */
import type { Config, SettingName } from './settings.ts';

/**
 * Whoever configures an authorization server means it to decide who gets in, and a key in the data folder must not let in
 * others beside it. So the own issuer is on beside another one only where the operator has set `--own-issuer`.
 */
export function fitOwnIssuer(given: Config, isDefault: (name: SettingName) => boolean): Config {
  if (!isDefault('ownIssuer') || !hasOtherIssuer(given)) return given;
  return Object.freeze({ ...given, ownIssuer: false });
}

const hasOtherIssuer = ({ oidcIssuers, introspectionIssuer }: Config): boolean =>
  oidcIssuers !== undefined || introspectionIssuer !== undefined;
