import type { Catalog } from '../catalog/port.ts';
import { newLocation } from '../create/locations.ts';
import type { Engine } from '../engine/port/engine.ts';
import type { NewId } from '../kernel/clock.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { Operations } from './commands.ts';

/** Reserves a table's name and place; create or the first merge fills it. The service alone chooses the place. */
export const declareTable =
  (catalog: Catalog, engine: Engine, access: TableAccess, newId: NewId): Operations['declareTable'] =>
  async ({ table, properties, location }) => {
    if (location !== undefined) throw invalidInput('location: this service chooses where a declared table is stored');
    const place = await newLocation(table, catalog, engine, newId);
    return access.describe(await catalog.declareTable(table, place, properties), undefined);
  };
