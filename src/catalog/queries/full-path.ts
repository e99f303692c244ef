/**
 * A full path is the one-column form of an identifier: its names joined by U+001F, empty for the root namespace.
 * Names hold no control characters, so it is unambiguous, and because U+001F sorts below every character a name may
 * hold, binary order of full paths is the order of the lists of names, parents before their children.
 */
import type { NamespacePath, ObjectName, TableRef } from '../../kernel/ids.ts';

declare const brand: unique symbol;
export type FullPath = string & { readonly [brand]: 'FullPath' };

const separator = '\u001f';
/** The character after the separator: with it a range scan covers exactly what is below a path. */
const pastSeparator = '\u0020';

export const namespacePathOf = (path: NamespacePath): FullPath => path.join(separator) as FullPath;

export const tablePathOf = (ref: TableRef): FullPath => namespacePathOf([...ref.namespace, ref.name]);

export const namesOf = (path: FullPath): NamespacePath => (path === '' ? [] : (path.split(separator) as ObjectName[]));

export function tableRefOf(path: FullPath): TableRef {
  const names = namesOf(path);
  return { namespace: names.slice(0, -1), name: names[names.length - 1]! };
}

/** Full paths strictly below `path` are those between the two bounds, both exclusive. Not for the root. */
export const boundsBelow = (path: FullPath): { readonly from: FullPath; readonly to: FullPath } => ({
  from: `${path}${separator}` as FullPath,
  to: `${path}${pastSeparator}` as FullPath,
});
