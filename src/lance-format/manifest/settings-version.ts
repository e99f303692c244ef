import { type manifest, mapEntry, mapUpdate, transaction, updateConfig } from '../messages.ts';
import { type Decoded, decode, encode } from '../protobuf.ts';
import {
  configFlag,
  type NewVersion,
  requireReplaceable,
  type VersionIdentity,
  versionAfter,
} from './next-manifest.ts';
import { sectionsOf } from './parse-manifest.ts';

/** The maps of texts that a manifest has. */
type SettingsMap = 'config' | 'tableMetadata' | 'schemaMetadata';

export interface MapChange {
  /** undefined removes the key. */
  readonly entries: ReadonlyMap<string, string | undefined>;
  /** The entries are the whole map; otherwise all others stay. */
  readonly isWhole: boolean;
}

export type SettingsChange = { readonly [Name in SettingsMap]?: MapChange };

/**
 * The version after `head` with other metadata or settings, which the engine's binding cannot change. In a shadow, too: as one
 * more version of it. Throws `NotReplaceable` for a table that this package writes no version of.
 */
export function settingsVersion(head: Buffer, change: SettingsChange, identity: VersionIdentity): NewVersion {
  const { message, indexes } = sectionsOf(head);
  const before = requireReplaceable(message, indexes);
  const { version: readVersion, writerFlags } = before;
  const names = (['config', 'tableMetadata', 'schemaMetadata'] as const).filter((name) => change[name] !== undefined);
  const maps = Object.fromEntries(names.map((name) => [name, changed(before[name], change[name]!)])) as Partial<
    Record<SettingsMap, readonly Uint8Array[]>
  >;
  const updates = Object.fromEntries(names.map((name) => [name, encodeUpdate(change[name]!)]));
  const recorded = encode(transaction, {
    readVersion,
    uuid: identity.transactionId,
    updateConfig: encode(updateConfig, updates),
  });
  const flag = (maps.config ?? before.config ?? []).length === 0 ? 0n : configFlag;
  return versionAfter(
    { message, readVersion, like: head },
    { ...maps, writerFlags: (writerFlags & ~configFlag) | flag || undefined },
    { indexes, transaction: recorded },
    identity,
  );
}

function changed(before: Decoded<typeof manifest>[SettingsMap] = [], { entries, isWhole }: MapChange): Uint8Array[] {
  const kept = isWhole ? [] : before.filter((each) => !entries.has(decode(mapEntry, each, ['key']).key ?? ''));
  const added = [...entries].flatMap(([key, value]) => (value === undefined ? [] : encode(mapEntry, { key, value })));
  return [...kept, ...added];
}

const encodeUpdate = ({ entries, isWhole }: MapChange): Buffer =>
  encode(mapUpdate, {
    entries: [...entries].map(([key, value]) => encode(mapEntry, { key, value })),
    isWhole: isWhole || undefined,
  });
