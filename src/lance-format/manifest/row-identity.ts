/**
 * A table with stable row ids keeps this of each row: its id, which an update leaves as it is, and the versions that created it and
 * last changed it. A fragment has one sequence for each of these, in the order of its rows, deleted ones included. One that is not of as
 * many numbers as the fragment has rows is `MalformedFile`.
 */
import { fragment, manifest, rowIdSequence, rowVersionRun, rowVersions } from '../messages.ts';
import { decode, edit, editEach, encode, MalformedFile } from '../protobuf.ts';
import { encodeNumbers, type NumberSegment, rangeOf, readSegment, Sequence, segmentsOf } from './number-sequence.ts';
import { fragmentId, sectionsOf } from './parse-manifest.ts';

export interface RowIdentity {
  readonly id: number;
  /** The version that created the row. */
  readonly createdAt: number;
}

/** A row is known by its fragment and its place there. */
export interface RowPlace {
  readonly fragment: number;
  readonly offset: number;
}

/** The flag of a table whose rows have ids of their own. */
export const rowIdsFlag = 2n;

/** Knows the rows of one fragment. */
export class FragmentIdentities {
  readonly #ids: Sequence<NumberSegment>;
  readonly #createdAt: Sequence<VersionRun> | undefined;

  constructor(encoded: Uint8Array) {
    const { id = 0, physicalRows = 0, rowIds, createdAtVersions } = decode(fragment, encoded, known);
    if (rowIds === undefined) throw new MalformedFile(`fragment ${id} has no identifiers of rows`);
    this.#ids = new Sequence(segmentsOf(rowIds), physicalRows);
    this.#createdAt = createdAtVersions && new Sequence(runsOf(createdAtVersions), physicalRows);
  }

  /** The id after the largest one. */
  get end(): number {
    return this.#ids.segments.reduce((most, each) => Math.max(most, each.end()), 0);
  }

  at(offset: number): RowIdentity {
    const ids = this.#ids.find(offset);
    // Tables that were made before rows had versions have none: such rows count as being from the first.
    const createdAt = this.#createdAt?.find(offset).segment.version ?? 1;
    return { id: ids.segment.at(ids.index), createdAt };
  }
}

const known = ['id', 'physicalRows', 'rowIds', 'createdAtVersions'] as const;

/**
 * Throws `MalformedFile` unless the fragment has an id, below `nextRowId`, of each of its rows, and its versions add up. What lies in
 * files of its own it does not look at.
 */
export function requireIdentities(encoded: Uint8Array, nextRowId: number): void {
  const { end } = new FragmentIdentities(encoded);
  const { id = 0, physicalRows = 0, updatedAtVersions } = decode(fragment, encoded);
  if (updatedAtVersions !== undefined) new Sequence(runsOf(updatedAtVersions), physicalRows);
  if (end > nextRowId) throw new MalformedFile(`fragment ${id} has a row id that is yet to be given`);
}

/** It has the identities of rows of some fragments, each read when one of its rows is asked for. */
class RowIdentities {
  readonly #fragments: ReadonlyMap<number, Uint8Array>;
  readonly #read = new Map<number, FragmentIdentities>();

  constructor(fragments: readonly Uint8Array[]) {
    this.#fragments = new Map(fragments.map((each) => [fragmentId(each), each]));
  }

  at({ fragment: id, offset }: RowPlace): RowIdentity {
    let rows = this.#read.get(id);
    if (rows === undefined) {
      const encoded = this.#fragments.get(id);
      if (encoded === undefined) throw new MalformedFile(`no fragment ${id}`);
      rows = new FragmentIdentities(encoded);
      this.#read.set(id, rows);
    }
    return rows.at(offset);
  }
}

/**
 * Gives what the versions of a dataset keep of their rows, and the first id that the last of them has not given; undefined where rows are
 * known by their addresses.
 */
export function identitiesIn(
  versions: readonly Buffer[],
): { readonly rows: RowIdentities; readonly nextRowId: number } | undefined {
  const known = versions.map((file) => decode(manifest, sectionsOf(file).message));
  const { readerFlags = 0n, nextRowId = 0 } = known.at(-1) ?? {};
  if ((readerFlags & rowIdsFlag) === 0n) return undefined;
  return { rows: new RowIdentities(known.flatMap(({ fragments = [] }) => fragments)), nextRowId };
}

/** The manifest of a version says this. */
interface TableOfRows {
  readonly hasRowIds: boolean;
  readonly fragments: readonly Uint8Array[];
  readonly version: number;
  readonly nextRowId?: number | undefined;
}

/**
 * Gives new fragments what the table keeps of its rows, whatever the dataset kept where they were staged. `updated` is where each row
 * was, undefined for one that is new. A row keeps its id, as the engine has it, and a new one gets the next.
 */
export function identified<Added extends { readonly bytes: Uint8Array; readonly rows: number }>(
  { hasRowIds, fragments, version, nextRowId = 0 }: TableOfRows,
  added: readonly Added[],
  updated: (() => Iterable<RowPlace | undefined>) | undefined,
): { readonly added: readonly Added[]; readonly nextRowId: number | undefined } {
  if (!hasRowIds) {
    return { added: added.map((each) => ({ ...each, bytes: withoutIdentities(each.bytes) })), nextRowId: undefined };
  }
  let next = nextRowId;
  const before = new RowIdentities(fragments);
  const places = updated?.()[Symbol.iterator]();
  const identityOf = (place: RowPlace | undefined): RowIdentity =>
    place === undefined ? { id: next++, createdAt: version + 1 } : before.at(place);
  const withIds = added.map((each) => {
    if (places === undefined) {
      next += each.rows;
      return { ...each, bytes: withNewIds(each.bytes, next - each.rows, version + 1) };
    }
    const identities = Array.from({ length: each.rows }, () => identityOf(places.next().value));
    return { ...each, bytes: withIdentities(each.bytes, identities, version + 1) };
  });
  return { added: withIds, nextRowId: next };
}

/** Gives the rows of a fragment these identities; this version has changed them. */
function withIdentities(encoded: Uint8Array, identities: readonly RowIdentity[], updatedAt: number): Buffer {
  return edit(fragment, encoded, {
    rowIds: encodeNumbers(identities.map(({ id }) => id)),
    createdAtVersions: encodeVersions(identities.map(({ createdAt }) => createdAt)),
    updatedAtVersions: encodeRuns([{ count: identities.length, version: updatedAt }]),
  });
}

/** Gives the new rows of a fragment ids from this one on. */
function withNewIds(encoded: Uint8Array, firstId: number, version: number): Buffer {
  const { physicalRows = 0 } = decode(fragment, encoded, ['physicalRows']);
  const versions = encodeRuns([{ count: physicalRows, version }]);
  return edit(fragment, encoded, {
    rowIds: encode(rowIdSequence, { segments: [rangeOf(firstId, physicalRows)] }),
    createdAtVersions: versions,
    updatedAtVersions: versions,
  });
}

/** Makes a fragment one in which no row counts as created or changed by a later version than this one. */
export function withVersionsUpTo(encoded: Uint8Array, last: number): Uint8Array {
  const runs = (run: Uint8Array): Uint8Array => {
    const { version = 0 } = decode(rowVersionRun, run, ['version']);
    return version > last ? edit(rowVersionRun, run, { version: last }) : run;
  };
  const upToLast = (versions: Uint8Array) => editEach(rowVersions, versions, { runs });
  return editEach(fragment, encoded, { createdAtVersions: upToLast, updatedAtVersions: upToLast });
}

/** Gives rows of a fragment other identities, by the ids that they have so far, in ascending order. */
export function withOtherIdentities(encoded: Uint8Array, others: ReadonlyMap<number, RowIdentity>): Uint8Array {
  const { physicalRows = 0 } = decode(fragment, encoded, ['physicalRows']);
  const rows = new FragmentIdentities(encoded);
  const [first = Number.POSITIVE_INFINITY] = others.keys();
  if (rows.end <= first) return encoded;
  const identities = Array.from({ length: physicalRows }, (_, offset) => rows.at(offset));
  const now = identities.map((each) => others.get(each.id) ?? each);
  return edit(fragment, encoded, {
    rowIds: encodeNumbers(now.map(({ id }) => id)),
    createdAtVersions: encodeVersions(now.map(({ createdAt }) => createdAt)),
  });
}

/** Makes the fragment one of a table whose rows are known by their addresses. */
export const withoutIdentities = (encoded: Uint8Array): Buffer =>
  edit(fragment, encoded, { rowIds: undefined, createdAtVersions: undefined, updatedAtVersions: undefined });

interface VersionRun {
  readonly count: number;
  readonly version: number;
}

const runsOf = (encoded: Uint8Array): readonly VersionRun[] =>
  (decode(rowVersions, encoded).runs ?? []).map((each) => {
    const { span, version = 0 } = decode(rowVersionRun, each);
    if (span === undefined) throw new MalformedFile('a run of versions without rows');
    return { count: readSegment(span).count, version };
  });

function encodeVersions(versions: readonly number[]): Buffer {
  const runs: { count: number; version: number }[] = [];
  for (const version of versions) {
    const last = runs.at(-1);
    if (last?.version === version) last.count += 1;
    else runs.push({ count: 1, version });
  }
  return encodeRuns(runs);
}

/** The rows of a run are named by their places in the fragment. */
function encodeRuns(runs: readonly VersionRun[]): Buffer {
  let start = 0;
  const encoded = runs.map(({ count, version }) => {
    const span = rangeOf(start, count);
    start += count;
    return encode(rowVersionRun, { span, version });
  });
  return encode(rowVersions, { runs: encoded });
}
