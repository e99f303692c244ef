import { type ChangeCommand, changeOperation } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import { requireIndex } from '../../indexing/index-names.ts';
import { lookAtBranch } from './create-index.ts';
import { IndexNameBody, requireSameIndex } from './index-options.ts';

interface DropIndexCommand extends ChangeCommand {
  readonly name: string;
}

/** `TableIndexNotFound`. */
const dropIndex = changeOperation(
  'drop_index',
  async ({ branch, name }: DropIndexCommand, table, deps: Parameters<typeof lookAtBranch>[0]) => {
    requireIndex((await lookAtBranch(deps, table, branch)).indexes, name);
    return { steps: [{ step: { kind: 'drop index', name } }] };
  },
);

export const dropIndexRoute = writeRoute(dropIndex, {
  path: '/v1/table/:id/index/:index/drop',
  action: 'DropTableIndex',
  summary: 'Drops an index',
  body: IndexNameBody,
  command(body, on, { index }) {
    requireSameIndex(body, index);
    return { ...on, name: index };
  },
});
