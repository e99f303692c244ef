import { connectionsUnder, type Machine } from './fit-defaults.ts';
import { bodyBytesUnder, partBytesOf } from './memory-plan.ts';
import { type Config, type SettingName, settings } from './settings.ts';
import { MiB, showBytes, showDuration } from './value-types.ts';

const flag = (name: SettingName): string => `--${settings[name].flag}`;

/** Settings that are right one by one and wrong together, or on this machine. */
export function findConflicts(config: Config, { openFiles }: Machine): readonly string[] {
  return [
    ...catalogConflicts(config),
    ...tlsConflicts(config),
    ...replicaConflicts(config),
    ...issuerConflicts(config),
    ...introspectionConflicts(config),
    ...timeoutConflicts(config),
    ...memoryConflicts(config),
    ...shareConflicts(config),
    ...fileConflicts(config, openFiles),
  ];
}

/** They stand for every address of the machine, and are none that another machine can reach. */
const wildcards: readonly string[] = ['0.0.0.0', '::'];

function* replicaConflicts({ catalogUrl, advertise, host, storageRootMovedFrom }: Config): Iterable<string> {
  if (storageRootMovedFrom !== undefined && catalogUrl === undefined) {
    yield `${flag('storageRootMovedFrom')} has no effect without ${flag('catalogUrl')}`;
  }
  if (advertise !== undefined && catalogUrl === undefined) {
    yield `${flag('advertise')} has no effect without ${flag('catalogUrl')}`;
  }
  // URL writes an IPv6 address in brackets and as short as it can be, and an IPv4 address in four parts.
  if (advertise !== undefined && wildcards.includes(new URL(advertise).hostname.replace(/^\[(.*)\]$/, '$1'))) {
    yield `${flag('advertise')} ${advertise} has no address that other replicas can reach: it needs one of this machine`;
  }
  if (catalogUrl !== undefined && advertise === undefined && wildcards.includes(host)) {
    yield `${flag('host')} ${host} is no address that other replicas can reach: ${flag('advertise')} names one`;
  }
}

function* tlsConflicts({ tlsCertificate, tlsKey, replicaCa, catalogUrl }: Config): Iterable<string> {
  if (tlsCertificate !== undefined && tlsKey === undefined) yield `${flag('tlsCertificate')} needs ${flag('tlsKey')}`;
  if (tlsKey !== undefined && tlsCertificate === undefined) yield `${flag('tlsKey')} needs ${flag('tlsCertificate')}`;
  if (replicaCa !== undefined && catalogUrl === undefined) {
    yield `${flag('replicaCa')} has no effect without ${flag('catalogUrl')}`;
  }
}

function* catalogConflicts({ catalogUrl, catalogPasswordFile }: Config): Iterable<string> {
  if (catalogPasswordFile === undefined) return;
  const who = flag('catalogPasswordFile');
  if (catalogUrl === undefined) yield `${who} has no effect without ${flag('catalogUrl')}`;
  else if (new URL(catalogUrl).password !== '')
    yield `${who} has no effect: the URL of ${flag('catalogUrl')} has a password`;
}

function* issuerConflicts(config: Config): Iterable<string> {
  if (config.oidcIssuers && !config.oidcAudiences) {
    yield `${flag('oidcIssuers')} needs ${flag('oidcAudiences')}: without it, tokens made for other services would be accepted`;
  }
  if (config.oidcAudiences && !config.oidcIssuers) {
    yield `${flag('oidcAudiences')} has no effect without ${flag('oidcIssuers')}`;
  }
  for (const name of ['oidcIssuers', 'introspectionIssuer', 'introspectionEndpoint'] as const) {
    const insecure = [config[name] ?? []].flat().filter(isInsecure);
    if (config.allowInsecureIssuer) continue;
    for (const url of insecure) yield `${flag(name)}: ${url} is not https; ${flag('allowInsecureIssuer')} accepts it`;
  }
}

function* introspectionConflicts(config: Config): Iterable<string> {
  const issuer = config.introspectionIssuer;
  for (const name of ['introspectionClientId', 'introspectionClientSecret', 'introspectionAudience'] as const) {
    if (issuer && !config[name]) yield `${flag('introspectionIssuer')} needs ${flag(name)}`;
    if (!issuer && config[name]) yield `${flag(name)} has no effect without ${flag('introspectionIssuer')}`;
  }
  if (!issuer && config.introspectionEndpoint) {
    yield `${flag('introspectionEndpoint')} has no effect without ${flag('introspectionIssuer')}`;
  }
}

function* timeoutConflicts(config: Config): Iterable<string> {
  const { defaultTimeoutMs, maxTimeoutMs } = config;
  if (defaultTimeoutMs <= maxTimeoutMs) return;
  yield `${flag('defaultTimeoutMs')} (${showDuration(defaultTimeoutMs)}) is more than ${flag('maxTimeoutMs')} (${showDuration(maxTimeoutMs)}) allows`;
}

/** Else the limit would not hold when bodies fill what they may. */
function* memoryConflicts(config: Config): Iterable<string> {
  const { bodyMemoryBytes, memoryLimitBytes } = config;
  const mostBytes = bodyBytesUnder(config);
  if (bodyMemoryBytes <= mostBytes) return;
  const left = `${showBytes(mostBytes)} that ${flag('memoryLimitBytes')} (${showBytes(memoryLimitBytes)}) leaves for it`;
  yield `${flag('bodyMemoryBytes')} (${showBytes(bodyMemoryBytes)}) is more than the ${left}, since the engine works on it`;
}

/** Whatever is allowed must also find room, or it would be refused for a reason that no setting names. */
function* shareConflicts(config: Config): Iterable<string> {
  const part = Math.floor(partBytesOf(config));
  // For a body of unknown length the service reserves up to 16 MiB, and what decoding takes.
  const leastPartBytes = 32 * MiB;
  if (part < leastPartBytes) {
    yield `${flag('principalShare')} leaves ${showBytes(part)} of ${flag('bodyMemoryBytes')} (${showBytes(config.bodyMemoryBytes)}), and a body needs up to ${showBytes(leastPartBytes)}`;
    return;
  }
  if (config.maxMergeBytes <= part) return;
  yield `${flag('maxMergeBytes')} (${showBytes(config.maxMergeBytes)}) is more than the ${showBytes(part)} that ${flag('principalShare')} leaves of ${flag('bodyMemoryBytes')}`;
}

/** Else as many idle connections would leave no file for tables, and every write would fail. */
function* fileConflicts({ maxConnections }: Config, openFiles: number): Iterable<string> {
  const most = connectionsUnder(openFiles);
  if (maxConnections <= most) return;
  yield `${flag('maxConnections')} (${maxConnections}) is more than the ${most} that tables leave of the ${openFiles} files this process may open (ulimit -n)`;
}

/** http is fine to this very machine: no machine is in between. */
function isInsecure(text: string): boolean {
  const url = URL.parse(text);
  return url?.protocol !== 'https:' && !/^(localhost|\[::1\]|127(\.\d+){3})$/.test(url?.hostname ?? '');
}
