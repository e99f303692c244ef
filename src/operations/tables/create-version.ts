import Type, { type Static } from 'typebox';
import { type ChangeCommand, type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import { jsonRoute, writeAnswer } from '../../endpoint/json-route.ts';
import { noTarget, tableTarget } from '../../endpoint/route.ts';
import type { ProposedManifest } from '../../engine/port/change.ts';
import type { Datasets, Locations } from '../../engine/port/engine.ts';
import type { Replayable } from '../../idempotency/idempotency.ts';
import { newTransactionId } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { principalKey, type RequestScope } from '../../kernel/request-scope.ts';
import { branchOfDeclared, requireCreated } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { TableOwners } from '../../table/table-owners.ts';
import { parseBranch, parseTableParts } from '../../wire/identifiers.ts';
import { Count, StringMap, Version } from '../../wire/json-body.ts';
import { describeVersion, type ListedVersion, TableVersion, tableVersion } from './list-versions.ts';

interface Deps extends ChangeDeps {
  readonly engine: Locations & Pick<Datasets, 'makeFirst'>;
  readonly locks: TableLocks;
}

type Proposal = Omit<ProposedManifest, 'kind'>;

export interface CreateVersionCommand extends ChangeCommand {
  readonly proposed: Proposal;
}

type CreatedVersion = Replayable<ChangeResult> & { readonly listed: ListedVersion };

/**
 * Makes what another program has written the next version of a branch: in the queue of its writers, at exactly the head plus one, and
 * durable when this resolves. What it brings is followed like any external commit. `VersionTaken` where the number is
 * another commit's. `Internal` where the version was made and cannot be read: a retry may find that pruning has removed it.
 */
const createVersion =
  (deps: Deps) =>
  async (command: CreateVersionCommand, scope: RequestScope): Promise<CreatedVersion> => {
    const made = await deps.idempotency.once('create_version', command, scope, async (keyed) => {
      const { branch, proposed } = command;
      const table = await deps.access.find(command.table);
      if (table.state === 'declared') return createFirst(deps, command, scope);
      const manifest = { kind: 'proposed', ...proposed } as const;
      return submitChange(deps, { operation: 'create_version', table, branch, manifest }, scope, keyed);
    });
    // Whatever the reason is: its own error would say that nothing was written (P6).
    const listed = await describeVersion(deps)({ ...command, version: made.version }).catch((cause: unknown) => {
      throw new LancegateError('Internal', 'the version was made, and cannot be described', { cause });
    });
    return { ...made, listed };
  };

/**
 * Makes version 1 of a table that is only declared, which thereby is created: behind whatever else would create it. Where this
 * process ends in between, the next look at the table finds what is there.
 */
async function createFirst(
  { access, locks, engine, newId }: Deps,
  { table, branch, proposed }: CreateVersionCommand,
  scope: RequestScope,
): Promise<ChangeResult> {
  const leave = await locks.lockExclusive(table, scope.signal);
  try {
    const declared = await access.find(table);
    if (branch !== undefined) throw branchOfDeclared(declared);
    const limits = { timeoutMs: scope.remainingMs(), principal: principalKey(scope.principal) };
    const isMade =
      declared.state === 'declared' &&
      (await engine.makeFirst(declared.location, { kind: 'proposed', ...proposed }, limits));
    if (!isMade) throw new LancegateError('VersionTaken', 'the table has a version 1 already; nothing was written');
    requireCreated(await access.find(table));
    const totals = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };
    return { transactionId: newTransactionId(newId), version: 1, numAttempts: 1, ...totals };
  } finally {
    leave();
  }
}

/** Makes a batch of versions as a whole, which can be one version, or none. */
export const createVersions =
  ({ owners, ...deps }: Deps & { readonly owners: Pick<TableOwners, 'acquire'> }) =>
  async (commands: readonly CreateVersionCommand[], scope: RequestScope): Promise<CreatedVersion | undefined> => {
    const [first, ...others] = commands;
    if (first === undefined) return undefined;
    if (others.length > 0)
      throw new LancegateError(
        'Unsupported',
        'versions of several tables or branches cannot be made as one; nothing was written; create them one by one',
      );
    await deps.access.findCreated(first.table); // nothing is claimed of what is not there
    using _table = await owners.acquire([first.table], scope.signal);
    return await createVersion(deps)(first, scope);
  };

/** `metadata` would be lost: nothing keeps it beside the manifest. The tag of an object says nothing that its name does not. */
const proposedFields = {
  version: Version,
  manifest_path: Type.String(),
  manifest_size: Type.Optional(Count),
  naming_scheme: Type.Optional(Type.Union([Type.Literal('V1'), Type.Literal('V2')])),
  e_tag: Type.Optional(Type.String()),
  metadata: Type.Optional(StringMap),
};
const ProposedVersion = Type.Object(proposedFields);

/** The program has written the files of the version and its manifest, and the service makes it the next version. */
export const createVersionRoute = jsonRoute(createVersion, {
  path: '/v1/table/:id/version/create',
  target: tableTarget,
  action: 'CreateTableVersion',
  summary: 'Makes what a program of Lance has written the next version of a table',
  answers: Type.Object({ version: TableVersion, transaction_id: Type.String() }),
  body: ProposedVersion,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const command = { table, branch, proposed: proposedManifest(body), idempotency };
    const { listed, ...written } = await operation(command, input.scope);
    writeAnswer(input, written, {});
    return { version: tableVersion(listed), transaction_id: written.transactionId };
  },
});

/** The specification wants all versions or none, and a version of one table is all that can be made at once. */
export const createVersionsRoute = jsonRoute(createVersions, {
  path: '/v1/table/version/batch-create',
  target: noTarget,
  action: 'CreateTableVersion',
  summary: 'As version/create, of one table',
  operationId: 'BatchCreateTableVersions',
  answers: Type.Object({ versions: Type.Array(TableVersion), transaction_id: Type.Optional(Type.String()) }),
  body: Type.Object({
    entries: Type.Array(
      Type.Object({ ...proposedFields, id: Type.Array(Type.String()), branch: Type.Optional(Type.String()) }),
      { maxItems: 1_000 },
    ),
  }),
  isWrite: true,
  answer: async (operation, { body, idempotency }, input) => {
    const commands = body.entries.map((entry) => {
      const table = input.database.table(parseTableParts(entry.id.slice(0, -1), entry.id.at(-1) ?? ''));
      const branch = parseBranch(entry.branch);
      input.access.require('CreateTableVersion', { kind: 'table', table }, branch);
      return { table, branch, proposed: proposedManifest(entry), idempotency };
    });
    const made = await operation(commands, input.scope);
    if (made === undefined) return { versions: [] };
    writeAnswer(input, made, {});
    return { versions: [tableVersion(made.listed)], transaction_id: made.transactionId };
  },
});

function proposedManifest(body: Static<typeof ProposedVersion>): Proposal {
  if (Object.keys(body.metadata ?? {}).length > 0)
    throw invalidInput('metadata: this service keeps none for a version');
  const { version, manifest_path: manifestPath, manifest_size: manifestBytes, naming_scheme: naming } = body;
  return { version, manifestPath, manifestBytes, naming };
}
