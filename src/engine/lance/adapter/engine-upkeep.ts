/** What the storage of one branch looks like, and the engine's own maintenance of it. */
import type { Field, Schema } from '../../../arrow/schema/schema.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import { parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import type { ManifestChange } from '../../port/change.ts';
import type { TableStatistics } from '../../port/dataset.ts';
import { plainIndexName } from '../../port/index-spec.ts';
import type { RefusedCommit } from '../../port/refusal.ts';
import type { StoredTag } from '../../port/stored-tags.ts';
import type { FragmentFacts, IndexFacts, Layout } from '../../port/upkeep.ts';
import type { NamedVersions } from '../durability/prune-versions.ts';
import type { NativeIndex, NativeTable } from '../native/native.ts';
import { specOf } from '../native/native-index.ts';

/** `file` is the manifest of its version. */
export async function layoutOf(table: NativeTable, schema: Schema, file: Buffer): Promise<Layout> {
  const { totalBytes, numRows } = await table.stats();
  const indexes = await table.listIndices();
  const { fragments } = parseManifest(file);
  return {
    rows: numRows,
    fragments: factsOf(fragments, schema),
    bytes: totalBytes,
    indexes: indexes.map(factsOfIndex),
  };
}

/** The layout of a version without indexes, which its manifest alone says; undefined for any other. */
export function plainLayoutOf(file: Buffer, schema: Schema): Layout | undefined {
  const { fragments, files, indexes } = parseManifest(file);
  if (indexes.length > 0) return undefined;
  const rows = fragments.reduce((sum, fragment) => sum + fragment.rows - fragment.deletedRows, 0);
  const bytes = files.reduce((sum, { kind, sizeBytes = 0 }) => sum + (kind === 'data' ? sizeBytes : 0), 0);
  return { rows, fragments: factsOf(fragments, schema), bytes, indexes: [] };
}

function factsOfIndex(index: NativeIndex): IndexFacts {
  const { name, columns, numIndexedRows: rows = 0, numUnindexedRows: unindexedRows = 0 } = index;
  const spec = specOf(index);
  const isPlain = spec?.options.type === 'BTREE' && name === plainIndexName(spec.column);
  return { name, columns, rows, unindexedRows, spec, isPlain };
}

function factsOf(fragments: readonly StoredFragment[], schema: Schema): readonly FragmentFacts[] {
  const mayMove = !schema.fields.some(holdsBlobs);
  return fragments.map(({ id, rows, deletedRows }) => ({ id: mayMove ? id : undefined, rows, deletedRows }));
}

/** Its metadata says so, or that of its extension type. */
const holdsBlobs = ({ metadata, children }: Field): boolean =>
  [...metadata].some(([key, value]) => key.includes('blob') || value.includes('blob')) || children.some(holdsBlobs);

export async function namedVersions(
  table: NativeTable,
  branch: string | undefined,
  tags: readonly StoredTag[],
): Promise<NamedVersions> {
  const branches = Object.values(await (await table.branches()).list());
  const children = branches.filter(({ parentBranch }) => (parentBranch ?? undefined) === branch);
  return {
    tagged: new Set(tags.flatMap((tag) => (tag.branch === branch ? tag.version : []))),
    parents: new Set(children.map(({ parentVersion }) => parentVersion)),
  };
}

export async function statisticsOf(table: NativeTable): Promise<TableStatistics> {
  const { totalBytes, numRows, numIndices, fragmentStats } = await table.stats();
  const { numFragments, numSmallFragments, lengths } = fragmentStats;
  return {
    bytes: totalBytes,
    rows: numRows,
    indexes: numIndices,
    fragments: numFragments,
    smallFragments: numSmallFragments,
    fragmentRows: lengths,
  };
}

/**
 * As `Dataset.commitManifest`, by the engine where that was refused, on a handle of its own: reads of others go on with another. The
 * engine has no fence of its own: to restore the newest version takes the number, too, and no commit of its own follows that.
 */
export async function commitManifest(
  openNewest: (() => Promise<NativeTable>) | undefined,
  change: ManifestChange,
  newest: number,
  { refused }: RefusedCommit,
): Promise<{ readonly version: number }> {
  if ((change.kind !== 'restore' && change.kind !== 'fence') || openNewest === undefined) throw onlyByEngine(refused);
  const table = await openNewest();
  try {
    await table.checkout(change.kind === 'fence' ? newest : change.version);
    await table.restore();
    return { version: await table.version() };
  } finally {
    table.close();
  }
}

const onlyByEngine = (why: string): LancegateError =>
  new LancegateError(
    'Unsupported',
    `the engine alone can change the table (${why}), and it cannot change the metadata of a schema`,
  );
