/** Tables lie below the storage root: a name has a folder, and a location lies in the folders of namespaces. */
import { createHash } from 'node:crypto';
import type { NamespaceCatalog, TableCatalog } from '../catalog/port.ts';
import type { Locations } from '../engine/port/engine.ts';
import type { NewId } from '../kernel/clock.ts';
import { type Location, type NamespacePath, type ObjectName, ownLocation, type TableRef } from '../kernel/ids.ts';
import { type Spelling, speltAs } from '../kernel/spelling.ts';

/** Such names are safe as they are: in a path, in a URL of any object store, and as a table name for LanceDB. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/;
const hexDigitsOfHash = 16;

/**
 * A folder name for any object name. Other names than plain ones, and those that could be taken for a table's folder, get
 * a readable part and a hash of the whole, so two names never share a folder by accident; the catalog, not the path, says
 * which table is where.
 */
function folderName(name: ObjectName): string {
  if (plainName.test(name) && !name.toLowerCase().endsWith('.lance')) return name;
  const readable = name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, 40);
  const hash = createHash('sha256').update(name).digest('hex').slice(0, hexDigitsOfHash);
  return `x${readable}-${hash}`;
}

/**
 * It is `{namespace…}/{table}.lance` if that was never used, else one with a short id, so that no table inherits the files of
 * another. `InvalidInput` where the store takes no keys of that length.
 */
export async function newLocation(
  table: TableRef,
  catalog: Pick<TableCatalog, 'locationsAt'>,
  engine: Locations,
  newId: NewId,
): Promise<Location> {
  const folder = [...table.namespace.map(folderName), folderName(table.name)].join('/');
  const other = engine.locationOf(`${folder}-${newId().replaceAll('-', '').slice(0, 12)}.lance`, 'id');
  const first = ownLocation(`${folder}.lance`);
  const known = await catalog.locationsAt(first, 'exact');
  if (known.every(({ location }) => location !== first) && (await engine.isVacant(first))) return first;
  return other;
}

/** What `folderName` makes of other names than plain ones; hardly any plain name looks like that. */
const encodedName = new RegExp(`^x.*-[0-9a-f]{${hexDigitsOfHash}}$`);

/**
 * Returns the namespace whose folder holds a location, by its text alone, whether that namespace exists or not. Undefined if a
 * folder has an encoded name; then `namespacesAround` answers. `near` is recognised by its own folder, encoded or not.
 */
export function folderNamespace(location: Location, near: NamespacePath): NamespacePath | undefined {
  const folders = foldersOf(location);
  const isNear = near.every((name, index) => folderName(name) === folders[index]);
  const known = isNear ? near : [];
  const rest = folders.slice(known.length);
  if (rest.some((folder) => encodedName.test(folder))) return undefined;
  const firstOther = rest.findIndex((folder) => folderName(folder) !== folder);
  return [...known, ...(firstOther < 0 ? rest : rest.slice(0, firstOther))];
}

/** Whether another namespace may have the same folder: one whose plain name is what another name becomes as a folder. */
export const mayBeShared = (location: Location): boolean =>
  foldersOf(location).some((folder) => encodedName.test(folder));

const foldersOf = (location: Location): readonly ObjectName[] => location.split('/').slice(0, -1) as ObjectName[];

/**
 * Returns the existing namespaces whose folder holds a location, innermost only; the root if there is no other. Several if
 * names share a folder. Reads all namespaces.
 */
export async function namespacesAround(
  catalog: NamespaceCatalog,
  location: Location,
  spelling: Spelling,
): Promise<readonly NamespacePath[]> {
  const spelt = speltAs(location, spelling);
  const around = (await catalog.namespacesUnder([])).filter((path) =>
    spelt.startsWith(path.map((name) => `${speltAs(folderName(name), spelling)}/`).join('')),
  );
  const innermost = Math.max(...around.map((path) => path.length));
  return around.filter((path) => path.length === innermost);
}
