/** Decides whether the own issuer is on if the operator has not set it. */
import type { Config, SettingName } from './settings.ts';

/**
 * An operator who configures an authorization server wants it to decide who gets in; a key in the data folder must not let in
 * others. So the own issuer is on beside another one only if the operator has set `--own-issuer`.
 */
export function fitOwnIssuer(given: Config, isDefault: (name: SettingName) => boolean): Config {
  if (!isDefault('ownIssuer') || !hasOtherIssuer(given)) return given;
  return Object.freeze({ ...given, ownIssuer: false });
}

const hasOtherIssuer = ({ oidcIssuers, introspectionIssuer }: Config): boolean =>
  oidcIssuers !== undefined || introspectionIssuer !== undefined;
