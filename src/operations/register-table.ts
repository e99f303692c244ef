/**
 * Adopts a dataset that lies inside the storage root already, such as one that was deregistered.
 *
 * Whoever registers a place can replace and drop what is there, so the place is authorised as well as the name: by the
 * namespace in whose folder it lies, and by the table that has it or had it last. A place that is a table's, or lies inside
 * or around one, is refused.
 *
 * What is refused for what the location says is `PermissionDenied`. What is refused for what the catalog or the storage
 * knows is answered as a place where nothing is, unless the principal has the rights there: nobody learns from an answer,
 * nor from how long it takes, which places exist (P9).
 */
import type { Adoption, Catalog, KnownPlace, TableRecord } from '../catalog/port.ts';
import type { Engine, ResolvedLocation } from '../engine/port.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { type Location, type NamespacePath, showTable, type TableRef } from '../kernel/ids.ts';
import { untilItsTurn } from '../kernel/turns.ts';
import type { TableGates } from '../table/gates.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { Operations, PlaceOwner, Visible } from './commands.ts';
import { folderNamespace, mayBeShared, namespacesAround } from './locations.ts';
import type { TableAccess } from './table-access.ts';

interface Parts {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly access: TableAccess;
  readonly gates: TableGates;
  readonly datasets: OpenDatasets;
}

export const registerTable =
  (parts: Parts): Operations['registerTable'] =>
  async ({ table, location, mode, properties, mayAdopt }) => {
    const { catalog, engine, access } = parts;
    const asked = engine.locationOf(location);
    const isAllowedTo = (owners: readonly PlaceOwner[]): boolean => isAllowed(owners, table, mayAdopt);
    if (!isAllowedTo(ownersByWords(asked, table))) throw notAllowedAt(asked);
    const existing = await catalog.findTable(table);
    if (existing !== undefined && mode === 'create') throw alreadyExists(table);
    const known = await catalog.placesAt(asked, 'exact');
    const isKnownAllowed = isAllowedTo(await ownersOf(catalog, { location: asked, spelling: 'exact' }, known, table));
    const found = await engine.resolve(isKnownAllowed ? asked : besideIt(asked));
    if (found === undefined || !isKnownAllowed) throw nothingThere();
    // Before the files are looked at: whatever happens to the place afterwards, the catalog finds it changed.
    const seen = await catalog.placesAt(found.location, found.spelling);
    const fault = await faultOfFiles(engine, found.location);
    if (!isAllowedTo(await ownersOf(catalog, found, seen, table))) throw nothingThere();
    requireLeft(seen, existing);
    if (fault !== undefined) throw fault;
    return access.describe(await adopt(parts, { ref: table, properties, seen, ...found }, existing), undefined);
  };

/**
 * A place where nothing is. It is looked for in place of one that belongs to others: the answer would take longer where files
 * are found and opened, and so tell that they are there.
 */
const besideIt = (location: Location): Location => location.replace(/\.lance$/, '~.lance') as Location;

function ownersByWords(location: Location, { namespace: near }: TableRef): readonly PlaceOwner[] {
  const namespace = folderNamespace(location, near);
  return namespace === undefined ? [] : [{ namespace }];
}

/** Everybody whose rights are needed, beside those on the table's own name. */
async function ownersOf(
  catalog: Catalog,
  { location, spelling }: ResolvedLocation,
  seen: readonly KnownPlace[],
  table: TableRef,
): Promise<readonly PlaceOwner[]> {
  const byWords = ownersByWords(location, table);
  const wordsTellAll = byWords.length > 0 && spelling === 'exact' && !mayBeShared(location);
  const namespaces = wordsTellAll ? [] : await namespacesAround(catalog, location, spelling);
  const tables = seen.flatMap(({ owner }) => (owner === undefined ? [] : [{ table: owner }]));
  return [...byWords, ...namespaces.map((namespace) => ({ namespace })), ...tables];
}

/** A right on the table is one in its own namespace's folder, and at a place that was its own. */
const isAllowed = (owners: readonly PlaceOwner[], table: TableRef, mayAdopt: Visible<PlaceOwner>): boolean =>
  owners.every((owner) => isOwnOf(table, owner) || mayAdopt(owner));

const isOwnOf = (table: TableRef, owner: PlaceOwner): boolean =>
  'table' in owner
    ? isSamePath([...owner.table.namespace, owner.table.name], [...table.namespace, table.name])
    : isSamePath(owner.namespace, table.namespace);

const isSamePath = (one: NamespacePath, other: NamespacePath): boolean =>
  one.length === other.length && one.every((name, index) => name === other[index]);

/** The table that loses its name in the same step may be the one that is registered anew. */
function requireLeft(seen: readonly KnownPlace[], replaced: TableRecord | undefined): void {
  const isTaken = seen.some(({ state, location }) => state !== 'left' && location !== replaced?.location);
  if (isTaken) throw invalidInput('location: it belongs to another table, or lies inside or around one that does');
}

async function faultOfFiles(engine: Engine, location: Location): Promise<unknown> {
  try {
    (await engine.open({ location })).close();
    return undefined;
  } catch (error) {
    const isMissing = error instanceof LancegateError && error.kind === 'TableNotFound';
    return isMissing ? nothingThere(error) : error; // whether it is told depends on who asks
  }
}

/** The name changes hands in one step, behind the writers of the table that has it. */
async function adopt(
  { catalog, gates, datasets }: Parts,
  adoption: Omit<Adoption, 'replaces'>,
  existing: TableRecord | undefined,
): Promise<TableRecord> {
  if (existing === undefined) return catalog.registerTable({ ...adoption, replaces: undefined });
  const leave = await gates.enterAlone(adoption.ref, untilItsTurn);
  try {
    const record = await catalog.registerTable({ ...adoption, replaces: existing.id });
    datasets.forget(existing.location);
    return record;
  } finally {
    leave();
  }
}

const nothingThere = (cause?: unknown): LancegateError =>
  invalidInput('location: no table is stored there that this request can register', cause);

const notAllowedAt = (location: Location): LancegateError =>
  new LancegateError('PermissionDenied', `RegisterTable at the location '${location}' is not allowed`);

const alreadyExists = (table: TableRef): LancegateError =>
  new LancegateError('TableAlreadyExists', `table '${showTable(table)}' already exists`);
