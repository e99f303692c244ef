import type { Config, SettingName } from './settings.ts';
import { settings } from './settings.ts';
import { showBytes, showDuration } from './value-types.ts';

const flag = (name: SettingName): string => `--${settings[name].flag}`;

/** Settings that are right one by one and wrong together. */
export function findConflicts(config: Config): readonly string[] {
  return [...issuerConflicts(config), ...introspectionConflicts(config), ...limitConflicts(config)];
}

function* issuerConflicts(config: Config): Iterable<string> {
  if (config.oidcIssuers && !config.oidcAudiences) {
    yield `${flag('oidcIssuers')} needs ${flag('oidcAudiences')}: without it, tokens made for other services would be accepted`;
  }
  if (config.oidcAudiences && !config.oidcIssuers) {
    yield `${flag('oidcAudiences')} has no effect without ${flag('oidcIssuers')}`;
  }
  if (config.allowInsecureIssuer) return;
  for (const issuer of config.oidcIssuers ?? []) {
    if (isInsecure(issuer)) yield `${flag('oidcIssuers')}: ${issuer} is not https; ${insecureHint()}`;
  }
}

function* introspectionConflicts(config: Config): Iterable<string> {
  const companions = ['introspectionClientId', 'introspectionClientSecret'] as const;
  for (const name of companions) {
    const isGiven = config[name] !== undefined;
    if (config.introspectionEndpoint && !isGiven) yield `${flag('introspectionEndpoint')} needs ${flag(name)}`;
    if (!config.introspectionEndpoint && isGiven) {
      yield `${flag(name)} has no effect without ${flag('introspectionEndpoint')}`;
    }
  }
  const endpoint = config.introspectionEndpoint;
  if (endpoint && isInsecure(endpoint) && !config.allowInsecureIssuer) {
    yield `${flag('introspectionEndpoint')}: ${endpoint} is not https; ${insecureHint()}`;
  }
}

function* limitConflicts(config: Config): Iterable<string> {
  const ordered = [
    ['maxMergeBytes', 'bodyMemoryBytes', showBytes],
    ['pieceBytes', 'bodyMemoryBytes', showBytes],
    ['maxBatchBytes', 'bodyMemoryBytes', showBytes],
    ['pieceBytes', 'maxDecodedBytes', showBytes],
    ['defaultTimeoutMs', 'maxTimeoutMs', showDuration],
  ] as const;
  for (const [smaller, larger, show] of ordered) {
    if (config[smaller] > config[larger]) {
      yield `${flag(smaller)} (${show(config[smaller])}) is more than ${flag(larger)} (${show(config[larger])}) allows`;
    }
  }
}

const isInsecure = (url: string): boolean => URL.parse(url)?.protocol !== 'https:';
const insecureHint = (): string => `for tests, ${flag('allowInsecureIssuer')} accepts it`;
