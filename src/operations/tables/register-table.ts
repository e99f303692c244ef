/**
 * Adopts a dataset that exists inside the storage root, such as one that was deregistered.
 *
 * A principal that registers a location can then replace and drop its files, so it needs rights on the location as well as on
 * the name: on the namespace whose folder holds the location, and on the table that has it or had it last. A location that
 * belongs to a table, or lies inside or around one, is refused.
 *
 * If the location's text shows that rights are missing, the answer is `PermissionDenied`. If only the catalog or the storage
 * shows it, the answer is that of an empty location, so that neither an answer nor its time shows which locations exist (P9).
 */
import Type from 'typebox';
import type {
  Adoption,
  AnswerOf,
  KnownLocation,
  NamespaceCatalog,
  TableCatalog,
  TableRecord,
} from '../../catalog/port.ts';
import { tableAlreadyExists } from '../../catalog/refusals.ts';
import { folderNamespace, mayBeShared, namespacesAround } from '../../create/table-location.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Datasets, Locations, ResolvedLocation } from '../../engine/port/engine.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type Location, type NamespacePath, ownLocation, type Properties, type TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import { requireRowEnds, rowEndsOf } from '../../table/row-ends.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { TableOwners } from '../../table/table-owners.ts';
import { choiceOf, parseChoice } from '../../wire/choices.ts';
import { StringMap } from '../../wire/json-body.ts';
import type { Visible } from '../visible-page.ts';
import { requireKnownProperties } from './known-properties.ts';

interface Deps {
  readonly catalog: TableCatalog & NamespaceCatalog;
  readonly engine: Locations & Datasets;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly owners: Pick<TableOwners, 'hold'>;
  readonly recoveryMarks: Pick<RecoveryMarks, 'forget'>;
}

/** The owner of a location: the table that has it or had it, or the namespace whose folder holds it. */
type LocationOwner = { readonly table: TableRef } | { readonly namespace: NamespacePath };

interface RegisterTableCommand {
  readonly table: TableRef;
  /** It is a path relative to the storage root, or a URI inside it. */
  readonly location: string;
  /** `overwrite` points an existing table at the new location. */
  readonly mode: 'create' | 'overwrite';
  readonly properties: Properties;
  /**
   * Called for each owner of the location. If one refuses: `PermissionDenied` for an owner that the location itself shows, else
   * the same `InvalidInput` as for an empty location.
   */
  readonly mayAdopt: Visible<LocationOwner>;
}

export const registerTable =
  (deps: Deps) =>
  async (
    { table, location, mode, properties, mayAdopt }: RegisterTableCommand,
    _scope?: RequestScope,
    answered?: AnswerOf<TableDescription>,
  ): Promise<TableDescription> => {
    const { catalog, engine, access } = deps;
    requireKnownProperties(properties);
    const asked = engine.locationOf(location);
    // A right on the table covers its own namespace's folder, and a location that was its own.
    const isAllowedTo = (owners: readonly LocationOwner[]): boolean =>
      owners.every((owner) => isOwnOf(table, owner) || mayAdopt(owner));
    if (!isAllowedTo(ownersByWords(asked, table))) throw notAllowedAt(asked);
    const existing = await catalog.findTable(table);
    if (existing !== undefined && mode === 'create') throw tableAlreadyExists(table);
    const known = await catalog.locationsAt(asked, 'exact');
    const isKnownAllowed = isAllowedTo(await ownersOf(catalog, { location: asked, spelling: 'exact' }, known, table));
    // A location without files. It is looked for instead of one that belongs to others: the answer would take longer
    // where files are found and opened, and so show that they exist.
    const found = await engine.resolve(isKnownAllowed ? asked : ownLocation(asked.replace(/\.lance$/, '~.lance')));
    if (found === undefined || !isKnownAllowed) throw nothingThere();
    // Read before the files are opened, so that the catalog notices any later change of the location.
    const seen = await catalog.locationsAt(found.location, found.spelling);
    const fault = await faultOfFiles(engine, found.location, properties);
    if (!isAllowedTo(await ownersOf(catalog, found, seen, table))) throw nothingThere();
    requireLeft(seen, existing);
    if (fault !== undefined) throw fault;
    const describe = (record: TableRecord) => access.describe(record, undefined);
    const adoption = { ref: table, properties, seen, ...found };
    return describe(await adopt(deps, adoption, existing, answeredBy(answered, describe)));
  };

function ownersByWords(location: Location, { namespace: near }: TableRef): readonly LocationOwner[] {
  const namespace = folderNamespace(location, near);
  return namespace === undefined ? [] : [{ namespace }];
}

/** Returns all owners of the location, on which the principal needs rights. */
async function ownersOf(
  catalog: NamespaceCatalog,
  { location, spelling }: ResolvedLocation,
  seen: readonly KnownLocation[],
  table: TableRef,
): Promise<readonly LocationOwner[]> {
  const byWords = ownersByWords(location, table);
  const wordsTellAll = byWords.length > 0 && spelling === 'exact' && !mayBeShared(location);
  const namespaces = wordsTellAll ? [] : await namespacesAround(catalog, location, spelling);
  const tables = seen.flatMap(({ owner }) => (owner === undefined ? [] : [{ table: owner }]));
  return [...byWords, ...namespaces.map((namespace) => ({ namespace })), ...tables];
}

const isOwnOf = (table: TableRef, owner: LocationOwner): boolean =>
  'table' in owner
    ? isSamePath([...owner.table.namespace, owner.table.name], [...table.namespace, table.name])
    : isSamePath(owner.namespace, table.namespace);

const isSamePath = (one: NamespacePath, other: NamespacePath): boolean =>
  one.length === other.length && one.every((name, index) => name === other[index]);

/** The table that loses its name in the same step may be the one that is registered anew. */
function requireLeft(seen: readonly KnownLocation[], replaced: TableRecord | undefined): void {
  const isTaken = seen.some(({ state, location }) => state !== 'left' && location !== replaced?.location);
  if (isTaken) throw invalidInput('location: it belongs to another table, or lies inside or around one that does');
}

async function faultOfFiles(engine: Datasets, location: Location, properties: Properties): Promise<unknown> {
  try {
    const dataset = await engine.open({ location });
    if (rowEndsOf(properties) !== undefined) requireRowEnds(properties, await dataset.schema());
    dataset.close();
    return undefined;
  } catch (error) {
    const isMissing = error instanceof LancegateError && error.kind === 'TableNotFound';
    return isMissing ? nothingThere(error) : error; // shown only to a principal with the rights
  }
}

/** The name changes hands in one step, behind the writers of the table that has it. */
async function adopt(
  { catalog, locks, datasets, owners, recoveryMarks }: Deps,
  adoption: Omit<Adoption, 'replaces'>,
  existing: TableRecord | undefined,
  answered: AnswerOf<TableRecord> | undefined,
): Promise<TableRecord> {
  if (existing === undefined) {
    await owners.hold(adoption.ref);
    return catalog.registerTable({ ...adoption, replaces: undefined }, answered);
  }
  const leave = await locks.lockExclusive(adoption.ref, neverAborts);
  try {
    const record = await catalog.registerTable({ ...adoption, replaces: existing.id }, answered);
    datasets.forget(existing.location);
    recoveryMarks.forget(existing.id);
    return record;
  } finally {
    leave();
  }
}

const nothingThere = (cause?: unknown): LancegateError =>
  invalidInput('location: no table is stored there that this request can register', cause);

const notAllowedAt = (location: Location): LancegateError =>
  new LancegateError('PermissionDenied', `RegisterTable at the location '${location}' is not allowed`);

const registerModes = ['create', 'overwrite'] as const;

const RegisterBody = Type.Object({
  location: Type.String(),
  mode: choiceOf(registerModes),
  properties: Type.Optional(StringMap),
});

const PlacedTable = Type.Object({ location: Type.String(), properties: StringMap });

export const registerTableRoute = onceRoute('register_table', registerTable, {
  path: '/v1/table/:id/register',
  target: tableTarget,
  makesTable: true,
  action: 'RegisterTable',
  summary: 'Gives a name to a table that is there already',
  answers: PlacedTable,
  body: RegisterBody,
  audit: ({ mode, location }) => ({ mode: parseChoice(mode, 'mode', registerModes), location }),
  furtherActions: ({ mode }) => (parseChoice(mode, 'mode', registerModes) === 'overwrite' ? ['DeregisterTable'] : []),
  answer: async (operation, { target: table, body }, { access }) => {
    const { location, properties } = await operation({
      table,
      location: body.location,
      mode: parseChoice(body.mode, 'mode', registerModes),
      properties: body.properties ?? {},
      mayAdopt: (owner: LocationOwner) =>
        'table' in owner
          ? access.needs('RegisterTable', { kind: 'table', table: owner.table })
          : access.needs('RegisterTable', { kind: 'namespace', path: owner.namespace }),
    });
    return { location, properties };
  },
});
