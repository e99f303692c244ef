/**
 * It says which files hold a column. Whether rows kept their values in it from one version to another, they say too: no commit changes a
 * file, so a fragment that keeps its files of a column keeps what they say.
 */
import { dataFileColumns, field, fragment, index, manifest } from '../messages.ts';
import { decode } from '../protobuf.ts';
import { sectionsOf } from './parse-manifest.ts';

export const columnsOfIndex = (encoded: Uint8Array): readonly number[] =>
  (decode(index, encoded, ['fieldIds']).fieldIds ?? []).flat();

/**
 * Finds the ids of the fragments of which an index of these columns that was built from the earlier version says something wrong: one of
 * the columns is in other files by now, or rows may be there again that were deleted. `kept` says how many others both versions have.
 * undefined if a column is gone. `keepsDeletions`: it is known that no deleted row is there again; else the id of a fragment that is
 * gone may be given out again, too.
 */
export function changedFragments(
  then: Buffer,
  now: Buffer,
  fieldIds: readonly number[],
  keepsDeletions: boolean,
): { readonly changed: ReadonlySet<number>; readonly kept: number } | undefined {
  const columns = fieldIds.map((id) => ({ before: columnFiles(then, id), after: columnFiles(now, id) }));
  const before = deletionsOf(then);
  const after = deletionsOf(now);
  const common = [...after.keys()].filter((id) => before.has(id));
  const keepsDeletionsOf = (id: number) =>
    keepsDeletions || before.get(id) === undefined || before.get(id) === after.get(id);
  const gone = keepsDeletions ? [] : [...before.keys()].filter((id) => !after.has(id));
  const changed = new Set(common.filter((id) => !keepsDeletionsOf(id)));
  for (const { before: files, after: filesNow } of columns) {
    if (files === undefined || filesNow === undefined) return undefined;
    for (const id of common) if (files.get(id) !== filesNow.get(id)) changed.add(id);
  }
  return { changed: changed.union(new Set(gone)), kept: common.length - changed.size };
}

/** Tells the deletion vectors of all fragments apart; undefined where no row is deleted. */
function deletionsOf(file: Buffer): ReadonlyMap<number, string | undefined> {
  const { fragments = [] } = decode(manifest, sectionsOf(file).message, ['fragments']);
  return new Map(
    fragments.map((each) => {
      const { id = 0, deletionFile: deletions } = decode(fragment, each, ['id', 'deletionFile']);
      return [id, deletions && Buffer.from(deletions).toString('base64')];
    }),
  );
}

/** It has the files of each fragment that hold a column. */
type ColumnFiles = ReadonlyMap<number, string>;

/** Answers undefined if there is no such column. */
function columnFiles(file: Buffer, fieldId: number): ColumnFiles | undefined {
  const { fields = [], fragments = [] } = decode(manifest, sectionsOf(file).message, ['fields', 'fragments']);
  const family = familyOf(fields, fieldId);
  if (family === undefined) return undefined;
  return new Map(
    fragments.map((each) => {
      const { id = 0, files = [] } = decode(fragment, each, ['id', 'files']);
      const holding = files
        .map((one) => decode(dataFileColumns, one))
        .filter((one) => one.fieldIds?.flat().some((own) => family.has(own)));
      return [id, JSON.stringify(holding.map(({ path }) => path).sort())];
    }),
  );
}

/**
 * Finds the ids of the fragments that have no file any more once the columns at these paths are gone. Rows that were inserted without the
 * other columns are in such fragments, and Lance cannot read a table with one.
 */
export function fragmentsWithout(file: Buffer, gone: readonly (readonly string[])[]): readonly number[] {
  const { fields = [], fragments = [] } = decode(manifest, sectionsOf(file).message, ['fields', 'fragments']);
  const kept = fieldsWithout(fields, new Set(gone.map((path) => JSON.stringify(path))));
  return fragments.flatMap((each) => {
    const { id = 0, files = [] } = decode(fragment, each, ['id', 'files']);
    const holds = (one: Uint8Array) =>
      decode(dataFileColumns, one)
        .fieldIds?.flat()
        .some((own) => kept.has(own)) === true;
    return files.length > 0 && !files.some(holds) ? [id] : [];
  });
}

/** Finds the encoded fields of columns with these names, and of what is in them. A field comes after the one that it is in. */
export function fieldsOfColumns(fields: readonly Uint8Array[], names: ReadonlySet<string>): readonly Uint8Array[] {
  const taken = new Set<number>();
  const known = new Set<number>();
  return fields.filter((each) => {
    const { id = 0, name = '', parentId } = decode(field, each, ['id', 'name', 'parentId']);
    const parent = parentId === undefined ? 0 : Number(parentId);
    const isTaken = known.has(parent) ? taken.has(parent) : names.has(name);
    known.add(id);
    if (isTaken) taken.add(id);
    return isTaken;
  });
}

/** The path of each field by its id, as JSON. */
export type FieldPaths = ReadonlyMap<number, string>;

export const fieldPathsIn = (file: Buffer): FieldPaths => {
  const { fields = [] } = decode(manifest, sectionsOf(file).message, ['fields']);
  return new Map([...placesOf(fields)].map(([id, { path }]) => [id, JSON.stringify(path)]));
};

/** The fields of columns that were dropped, whose values files still have; they have no path. */
export function droppedFieldsIn(file: Buffer): FieldPaths {
  const { fields = [], fragments = [] } = decode(manifest, sectionsOf(file).message, ['fields', 'fragments']);
  const files = fragments.flatMap((each) => decode(fragment, each, ['files']).files ?? []);
  const held = new Set(files.flatMap((one) => decode(dataFileColumns, one).fieldIds?.flat() ?? []));
  return new Map([...held.difference(placesOf(fields))].map((id) => [id, '']));
}

/** Whether a field has another path than it had, or a field of its path had another id: files that are there say another column then. */
export function areFieldsMoved(then: FieldPaths, now: FieldPaths): boolean {
  const idAt = new Map([...then].map(([id, path]) => [path, id]));
  return [...now].some(([id, path]) => (then.get(id) ?? path) !== path || (idAt.get(path) ?? id) !== id);
}

interface PlacedField {
  readonly path: readonly string[];
  readonly parent: number | undefined;
}

/** Gives the path of each field. A field comes after the one that it is in. */
function placesOf(fields: readonly Uint8Array[]): ReadonlyMap<number, PlacedField> {
  const placed = new Map<number, PlacedField>();
  for (const each of fields) {
    const { id = 0, name = '', parentId } = decode(field, each, ['id', 'name', 'parentId']);
    const above = parentId === undefined ? undefined : placed.get(Number(parentId));
    placed.set(id, { path: [...(above?.path ?? []), name], parent: above && Number(parentId) });
  }
  return placed;
}

/** Finds the ids of the fields that are not at these paths, nor in one that is. */
function fieldsWithout(fields: readonly Uint8Array[], gone: ReadonlySet<string>): ReadonlySet<number> {
  const kept = new Set<number>();
  for (const [id, { path, parent }] of placesOf(fields)) {
    const isInGone = parent !== undefined && !kept.has(parent);
    if (!isInGone && !gone.has(JSON.stringify(path))) kept.add(id);
  }
  return kept;
}

/** The column itself is one of them, with the fields in it: files of some versions of the format name both, others the innermost only. */
function familyOf(fields: readonly Uint8Array[], fieldId: number): ReadonlySet<number> | undefined {
  const known = fields.map((each) => decode(field, each, ['id', 'parentId']));
  const family = new Set([fieldId]);
  for (const { id = 0, parentId } of known) if (parentId !== undefined && family.has(Number(parentId))) family.add(id);
  return known.some(({ id = 0 }) => id === fieldId) ? family : undefined;
}
