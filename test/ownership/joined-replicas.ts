import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { SharedCatalog } from '#src/catalog/replica-port.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { TableRef } from '#src/kernel/ids.ts';
import { NamesHere } from '#src/ownership/names-here.ts';
import { ReplicaOwners } from '#src/ownership/replica-owners.ts';
import type { OwnedWork } from '#src/table/table-owners.ts';
import { place } from '#test/contract/catalog/fixtures.ts';
import { openMemoryCatalog } from '#test/fixtures/shared-catalog.ts';
import { ManualClock } from '#test/http-unit/manual-clock.ts';

export const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 60; turn++) await new Promise(setImmediate);
};

type Change = (catalog: SharedCatalog) => SharedCatalog;
const unchanged: Change = (catalog) => catalog;

/** Keeps the fields of errors alone. */
const loggerOf = (errors: unknown[]) => {
  const error = (fields: unknown) => void errors.push(fields);
  return { debug: () => {}, info: () => {}, warn: () => {}, error } as never;
};

/** Several replicas with one database. Time passes for all of them at once, save for those that are frozen. */
export async function cluster(t: TestContext) {
  let nowMs = 1_000_000;
  const database = await openMemoryCatalog(() => nowMs, randomUUID);
  t.after(() => database.close());
  const clocks = new Map<string, ManualClock>();
  const frozen = new Set<string>();
  const errors: unknown[] = [];
  const logger = loggerOf(errors);

  const join = async (id: string, change: Change = unchanged, address = `http://${id}`) => {
    const clock = new ManualClock();
    clocks.set(id, clock);
    const names = new NamesHere(id);
    const did: string[] = [];
    const handOver: { how: OwnedWork['handOver'] } = { how: async () => 'settled' };
    const takeOver: { how: () => Promise<void> } = { how: async () => {} };
    const storage: { reach: () => Promise<void> } = { reach: async () => {} };
    const catalog = change(await database.catalogOf(names));
    const owners = new ReplicaOwners({ catalog, names, clock, monotonicMs: () => nowMs, logger });
    await owners.start({
      takeOver: (taken) => {
        did.push(`takes over ${(taken as TableRef).name}`);
        return takeOver.how();
      },
      handOver: (given, signal) => {
        did.push(`hands over ${given.name}`);
        return handOver.how(given, signal);
      },
      forget: async (given) => void did.push(`forgets ${given.name} in epoch ${names.epochOf(given)}`),
      isIdle: () => true,
    });
    await owners.join(address, () => storage.reach());
    await turns();
    return {
      id,
      owners,
      catalog,
      declare: (ref: TableRef) => catalog.declareTable(ref, place(`${ref.name}.lance`), {}),
      all: did,
      get did() {
        return did.filter((each) => !each.startsWith('forgets'));
      },
      handOver,
      takeOver,
      storage,
    };
  };
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 500) {
      nowMs += 500;
      for (const [id, clock] of clocks) if (!frozen.has(id)) clock.advance(500);
      await turns();
    }
  };
  return { join, pass, until: passUntil(pass), frozen, errors };
}

/** Lets time pass until the work is done. */
const passUntil =
  (pass: (ms: number) => Promise<void>) =>
  async <Result>(work: Promise<Result>): Promise<Result> => {
    let isDone = false;
    void work.finally(() => {
      isDone = true;
    });
    while (!isDone) await pass(500);
    return work;
  };

export type Joined = Awaited<ReturnType<Awaited<ReturnType<typeof cluster>>['join']>>;

export const asked = { mustClaim: false };
export const forwarded = { mustClaim: true };
export const ownerOf = async (
  { id, owners }: Joined,
  ref: TableRef,
  question: Parameters<ReplicaOwners['ownerOf']>[1] = asked,
) => {
  const owner = await owners.ownerOf(ref, question);
  return owner.kind === 'self' ? id : owner.id;
};
export const refusalOf = async (work: Promise<unknown> | undefined) =>
  work?.then(
    () => undefined,
    (error: unknown) => (error instanceof LancegateError ? error.kind : error),
  );
