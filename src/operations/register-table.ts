import type { Catalog } from '../catalog/port.ts';
import type { Engine } from '../engine/port.ts';
import { invalidInput, LancegateError, notTheFirstStep } from '../kernel/errors.ts';
import type { Location } from '../kernel/ids.ts';
import type { Operations } from './commands.ts';
import type { TableAccess } from './table-access.ts';

/** Adopts a dataset that lies inside the storage root already, such as one that was deregistered. */
export const registerTable =
  (
    catalog: Catalog,
    engine: Engine,
    access: TableAccess,
    deregister: Operations['deregisterTable'],
  ): Operations['registerTable'] =>
  async ({ table, location, mode, properties }) => {
    const place = await engine.locationOf(location);
    await requireReadable(engine, place);
    const existing = await catalog.findTable(table);
    const register = () => catalog.registerTable(table, place, properties);
    if (existing === undefined || mode !== 'overwrite') return access.describe(await register(), undefined);
    await deregister({ table });
    return access.describe(await register().catch(notTheFirstStep), undefined);
  };

async function requireReadable(engine: Engine, location: Location): Promise<void> {
  try {
    (await engine.open({ location })).close();
  } catch (error) {
    if (!(error instanceof LancegateError) || error.kind !== 'TableNotFound') throw error;
    throw invalidInput('location: no table is stored there', error);
  }
}
