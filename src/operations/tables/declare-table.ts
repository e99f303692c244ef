import Type from 'typebox';
import type { AnswerOf, CreationCatalog, TableCatalog, TableRecord } from '../../catalog/port.ts';
import { declaredColumns } from '../../create/declared-columns.ts';
import { newLocation } from '../../create/table-location.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Locations } from '../../engine/port/engine.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import type { NewId } from '../../kernel/clock.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { Properties, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { requireRowEnds, rowEndsOf } from '../../table/row-ends.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableOwners } from '../../table/table-owners.ts';
import { StringMap } from '../../wire/json-body.ts';
import type { DescribedTable } from './describe-table.ts';
import { requireKnownProperties } from './known-properties.ts';

interface Deps {
  readonly catalog: TableCatalog & CreationCatalog;
  readonly engine: Locations;
  readonly access: TableAccess;
  readonly newId: NewId;
  readonly owners: Pick<TableOwners, 'hold'>;
  readonly managesVersions: boolean;
}

interface DeclareTableCommand {
  readonly table: TableRef;
  readonly properties: Properties;
  readonly location: string | undefined;
}

/** Reserves a table's name and location; create or the first merge fills it. The service alone chooses the location. */
export const declareTable =
  ({ catalog, engine, access, newId, owners, managesVersions }: Deps) =>
  async (
    { table, properties, location }: DeclareTableCommand,
    _scope?: RequestScope,
    answered?: AnswerOf<DescribedTable>,
  ): Promise<DescribedTable> => {
    if (location !== undefined) throw invalidInput('location: this service chooses where a declared table is stored');
    requireKnownProperties(properties);
    const columns = declaredColumns(properties);
    if (columns.fields.length > 0) requireRowEnds(properties, columns);
    else rowEndsOf(properties);
    await owners.hold(table);
    const chosen = await newLocation(table, catalog, engine, newId);
    const describe = (record: TableRecord) => ({ ...access.describe(record, undefined), isManaged: managesVersions });
    return describe(await catalog.declareTable(table, chosen, properties, answeredBy(answered, describe)));
  };

const DeclareBody = Type.Object({ location: Type.Optional(Type.String()), properties: Type.Optional(StringMap) });

const DeclaredTable = Type.Object({
  location: Type.String(),
  storage_options: StringMap,
  properties: StringMap,
  managed_versioning: Type.Optional(Type.Boolean()),
});

export const declareTableRoute = onceRoute('declare_table', declareTable, {
  path: '/v1/table/:id/declare',
  target: tableTarget,
  makesTable: true,
  action: 'DeclareTable',
  summary: 'Reserves the name of a table that has no rows yet',
  answers: DeclaredTable,
  body: DeclareBody,
  answer: async (operation, { target: table, body: { location, properties = {} } }) => {
    const declared = await operation({ table, location, properties });
    return {
      location: declared.location,
      storage_options: declared.storageOptions,
      properties: declared.properties,
      ...(declared.isManaged && { managed_versioning: true }),
    };
  },
});
