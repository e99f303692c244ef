import Type from 'typebox';
import { type ChangeCommand, changeOperation } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import { Version } from '../../wire/json-body.ts';

/**
 * Makes a new version of all that an older one of the branch has: rows, columns, indexes and settings. The newest can be restored
 * too, which makes a version as well, as the engine does. `TableVersionNotFound`.
 */
const restoreTable = changeOperation('restore', async ({ version }: ChangeCommand & { readonly version: number }) => ({
  manifest: { kind: 'restore', version },
}));

export const restoreTableRoute = writeRoute(restoreTable, {
  path: '/v1/table/:id/restore',
  action: 'RestoreTable',
  summary: 'Makes an older version the newest',
  body: Type.Object({ version: Version }),
  command: ({ version }, on) => ({ ...on, version }),
});
