/**
 * Puts chosen fragments together, where the engine's own call can only do all or none: that takes every fragment of less
 * than a million rows, and a table of 300,000 rows of 3 KB keeps its writers out for 2.7 s for the sake of a few thousand
 * new ones (measured).
 *
 * Rows that are updated move into new fragments, and a fragment without rows is gone. So the rows at the addresses of the
 * chosen fragments are updated: one column is set to itself. It is one commit, and the engine's own; indexes are not
 * written again, they do not cover the moved rows until they are renewed.
 *
 * Not for tables whose rows have identifiers of their own, since those would tell of an update that was none; nor with
 * columns of blobs, which an update may read as descriptions of themselves. If it fails, nothing is changed.
 */
import type { DataType, Field, Schema } from '../../arrow/schema.ts';
import { addressesIn } from '../port.ts';
import { parseManifest } from './manifest.ts';
import { readManifest } from './manifest-files.ts';
import type { NativeTable } from './native.ts';

/** Undefined where rows are better left where they are. */
export function columnToMoveBy({ fields }: Schema): string | undefined {
  if (fields.some(holdsBlobs)) return undefined;
  return fields.find((field) => field.dictionary === undefined && plainName.test(field.name) && isSimple(field.type))
    ?.name;
}

interface Rewritten {
  readonly version: number;
  readonly removedFragments: number;
}

/** `before`: the version that the table stands at. Throws where no column is fit for it. */
export async function rewriteFragments(
  table: NativeTable,
  schema: Schema,
  versionsFolder: string,
  { ids, before }: { readonly ids: readonly number[]; readonly before: number },
): Promise<Rewritten> {
  const column = columnToMoveBy(schema);
  if (column === undefined) throw new Error('the rows of this table are not to be moved');
  const { version } = await table.update(addressesIn(ids), [[column, `\`${column}\``]]);
  return { version, removedFragments: fragmentsAt(versionsFolder, before) - fragmentsAt(versionsFolder, version) };
}

/** 0 where the version is not there any more. */
function fragmentsAt(versionsFolder: string, version: number): number {
  const file = readManifest(versionsFolder, version);
  return file === undefined ? 0 : parseManifest(file.bytes).fragments.length;
}

/** Names that need no thought in an expression. */
const plainName = /^[A-Za-z_]\w*$/;

function isSimple({ kind }: DataType): boolean {
  return (
    kind === 'int' || kind === 'float' || kind === 'bool' || kind === 'utf8' || kind === 'date' || kind === 'timestamp'
  );
}

/** `lance-encoding:blob`, or an extension type of that name. */
const holdsBlobs = ({ metadata, children }: Field): boolean =>
  [...metadata].some(([key, value]) => key.includes('blob') || value.includes('blob')) || children.some(holdsBlobs);
