/**
 * Finds what commits did to rows and to their addresses, by their transactions (Lance's `protos/transaction.proto`). A transaction is
 * in the manifest of the version it made or, from writers that do not repeat it there, in a file that the manifest names.
 *
 * Most commits delete rows in fragments and bring new fragments, which two manifests tell. A compaction says in its transaction
 * what became of the old fragments: their rows that were not deleted, one fragment after the other, each in its order, are the
 * rows of the new ones (the format's "ordered compaction", on which the engine's own address remaps for indexes rely, too). After
 * any other commit, such as the return to an earlier version, no address is known.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { namesIn, readManifest } from '../manifest/manifest-files.ts';
import { transactionIn } from '../manifest/parse-manifest.ts';
import { deletionFile, fragment, mapEntry, restore, rewrite, rewriteGroup, transaction, update } from '../messages.ts';
import { type Decoded, decode, fieldsIn, MalformedFile } from '../protobuf.ts';

export type LanceOperation =
  | Exclude<keyof Decoded<typeof transaction>, 'readVersion' | 'uuid' | 'properties'>
  | 'unknown';

/** These operations neither change nor move a row. The first also drops indexes; the last changes settings. */
const keepingAddresses: ReadonlySet<LanceOperation> = new Set(['createIndex', 'reserveFragments', 'updateConfig']);
/** These operations write no column anew, so it is known where each row is. An update may write columns anew. */
const keepingColumns: ReadonlySet<LanceOperation> = keepingAddresses.union(new Set(['append', 'delete', 'rewrite']));

/** Each version costs the reading of its manifest; past so many, working out what changed costs less. */
const mostVersions = 64;
/** Past so many versions, reading the keys of a table again costs less. */
export const mostVersionsFollowed = 1_024;

/** Says whether no commit changed a row or, as a compaction does, its address. */
export const keepsEveryAddress = (versionsFolder: string, after: number, through: number): boolean =>
  transactionsBetween(versionsFolder, after, through)
    .map((each) => readable(() => each && operationOf(each)))
    .every((operation) => operation !== undefined && keepingAddresses.has(operation));

function readable<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    // Pruned meanwhile, or in a form that is not known here.
    return undefined;
  }
}

/** Reads that of each version after `after` up to `through`, oldest first; undefined is one that cannot be read, or all at once. */
export function transactionsBetween(
  versionsFolder: string,
  after: number,
  through: number,
  most = mostVersions,
): readonly (Uint8Array | undefined)[] {
  if (through < after || through - after > most) return [undefined];
  const versions = Array.from({ length: through - after }, (_, index) => after + 1 + index);
  return versions.map((version) => readable(() => readTransaction(versionsFolder, version)));
}

function readTransaction(versionsFolder: string, version: number): Uint8Array | undefined {
  const found = readManifest(versionsFolder, version);
  return found && transactionOf(versionsFolder, found.bytes);
}

function transactionOf(versionsFolder: string, manifest: Buffer): Uint8Array | undefined {
  const stored = transactionIn(manifest);
  if (typeof stored !== 'string') return stored;
  return readFileSync(join(dirname(versionsFolder), '_transactions', stored));
}

/** Who made a version, and what that program noted of it. */
interface TransactionFacts {
  readonly id: string;
  readonly properties: Readonly<Record<string, string>>;
}

/** Answers undefined where the version or its transaction is not there. */
export function transactionFacts(versionsFolder: string, version: number): TransactionFacts | undefined {
  const encoded = readTransaction(versionsFolder, version);
  if (encoded === undefined) return undefined;
  const { uuid: id = '' } = decode(transaction, encoded, ['uuid']);
  return { id, properties: propertiesOf(encoded) };
}

function propertiesOf(encoded: Uint8Array): Readonly<Record<string, string>> {
  const { properties = [] } = decode(transaction, encoded, ['properties']);
  return Object.fromEntries(
    properties.map((each) => {
      const { key = '', value = '' } = decode(mapEntry, each);
      return [key, value] as const;
    }),
  );
}

export interface RewrittenFragment {
  readonly id: number;
  /** Deleted ones are among them. */
  readonly rows: number;
  /** It tells one deletion vector from another. */
  readonly deletionsId: bigint | undefined;
}

export interface RewriteGroup {
  readonly before: readonly RewrittenFragment[];
  readonly after: readonly RewrittenFragment[];
}

/**
 * Gives the groups of a compaction, none for others; undefined where it is not known afterwards which row is where. `only`: the other
 * fragments are of no interest.
 */
export function rewriteGroupsOf(encoded: Uint8Array, only?: ReadonlySet<number>): readonly RewriteGroup[] | undefined {
  const operation = operationOf(encoded);
  const { update: changed, rewrite: compaction } = decode(transaction, encoded, ['update', 'rewrite']);
  if (changed !== undefined) return writesColumns(changed, only) ? undefined : [];
  if (operation !== undefined && !keepingColumns.has(operation)) return undefined;
  return compaction === undefined ? [] : (decode(rewrite, compaction).groups ?? []).map(readGroup);
}

/** After these operations no deleted row is there again, and fragments keep their ids. */
const keepingDeletions: ReadonlySet<LanceOperation> = keepingColumns.union(new Set(['update', 'merge', 'project']));

/** Says whether no row that was deleted before is there again; false if that is not known. */
export function keepsDeletions(encoded: Uint8Array): boolean {
  const operation = operationOf(encoded);
  return operation !== undefined && keepingDeletions.has(operation);
}

/** Columns are written anew for rows that stay where they are; of all modes that are not known here, that is assumed. */
function writesColumns(encoded: Uint8Array, only: ReadonlySet<number> | undefined): boolean {
  const { fieldsModified = [], mode = 0, updatedFragments = [] } = decode(update, encoded);
  if (fieldsModified.flat().length === 0 && mode === 0) return false;
  return only === undefined || mode > 1 || updatedFragments.some((each) => only.has(readFragment(each).id));
}

function readGroup(encoded: Uint8Array): RewriteGroup {
  const { before = [], after = [] } = decode(rewriteGroup, encoded);
  return { before: before.map(readFragment), after: after.map(readFragment) };
}

function readFragment(encoded: Uint8Array): RewrittenFragment {
  const { id = 0, physicalRows: rows = 0, deletionFile: deletions } = decode(fragment, encoded);
  return { id, rows, deletionsId: deletions && (decode(deletionFile, deletions).id ?? 0n) };
}

/** A commit of this service says by it what its operation does not. */
export const takesAwayProperty = 'lancegate:takes-away';

/** An update may; an operation that is not known here may do anything. */
const takingAway: ReadonlySet<LanceOperation> = new Set(['delete', 'overwrite', 'project', 'restore', 'unknown']);

/**
 * Says whether what was there just before cannot be had from the version that it made: rows that were not updated, or columns.
 * undefined where it does not say.
 */
export function takesAway(encoded: Uint8Array): boolean | undefined {
  const said = propertiesOf(encoded)[takesAwayProperty];
  if (said !== undefined) return said === 'true';
  const operation = operationOf(encoded);
  if (operation !== 'restore') return (operation !== undefined && takingAway.has(operation)) || undefined;
  const { readVersion = 0, restore: encodedRestore = Buffer.of() } = decode(transaction, encoded);
  // A fence returns to the newest version.
  return decode(restore, encodedRestore).version !== readVersion;
}

/** Says what a transaction did, by the name of the field; `unknown` for an operation of a newer Lance, undefined without any. */
export function operationOf(encoded: Uint8Array): LanceOperation | undefined {
  const { readVersion, uuid, properties, ...operations } = decode(transaction, encoded);
  const [name] = Object.keys(operations) as LanceOperation[];
  // The fields of operations have numbers from 100 on.
  return name ?? (fieldsIn(encoded).some(({ number }) => number >= 100) ? 'unknown' : undefined);
}

/**
 * Says whether another program began to commit on top of version `version` or a later one. The engine writes a transaction into a file
 * of its own, named `<version it builds on>-<uuid>.txn`, and only then the manifest: without such a file there is no commit,
 * nor one that is about to appear. It may say yes once too often: what made a branch names the branch's first version.
 */
export const hasTransactionOn = (versionsFolder: string, version: number): boolean =>
  namesIn(join(dirname(versionsFolder), '_transactions')).some((name) => Number.parseInt(name, 10) >= version);

/** The engine made it in a folder that it has for itself. Every version there is readable. */
export interface PrivateChanges {
  readonly version: number;
  /** It is the path of the newest manifest. */
  readonly path: string;
  readonly result: Buffer;
  /** The oldest is first. */
  readonly steps: readonly Uint8Array[];
}

/** Reads what was made after `since`. `version` is the newest one. */
export function changesIn(versionsFolder: string, since: number, version: number): PrivateChanges {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) throw new MalformedFile('no manifest where the engine made a version');
  const { path, bytes: result } = found;
  if (version === since) return { version, path, result, steps: [] };
  const earlier = transactionsBetween(versionsFolder, since, version - 1, Number.POSITIVE_INFINITY);
  const steps = [...earlier, transactionOf(versionsFolder, result)].map((step) => {
    if (step === undefined) throw new MalformedFile('a version of the engine without its transaction');
    return step;
  });
  return { version, path, result, steps };
}
