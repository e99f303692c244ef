import { createHash } from 'node:crypto';
import type { Catalog } from '../catalog/port.ts';
import type { Engine } from '../engine/port.ts';
import type { NewId } from '../kernel/clock.ts';
import type { Location, ObjectName, TableRef } from '../kernel/ids.ts';

/** Names that are safe as they are: in a path, in a URL of any object store, and as a table name for LanceDB. */
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
 * Where a new table's files go: `{namespace…}/{table}.lance` where that place was never used, else with a short id, so
 * that a recreated table never inherits old files (design, section 5).
 */
export async function newLocation(table: TableRef, catalog: Catalog, engine: Engine, newId: NewId): Promise<Location> {
  const folder = [...table.namespace.map(folderName), folderName(table.name)].join('/');
  const first = `${folder}.lance` as Location;
  if ((await catalog.isLocationFresh(first)) && (await engine.isVacant(first))) return first;
  return `${folder}-${newId().replaceAll('-', '').slice(0, 12)}.lance` as Location;
}
