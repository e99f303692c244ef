/** Clients write and read registers while a nemesis breaks what they depend on: every answer must be possible, and stay true. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { Random } from '#test/model/random.ts';
import { violationsOf } from './history/check-history.ts';
import { HttpTarget } from './history/http-target.ts';
import { LosingTarget } from './history/losing-target.ts';
import type { History } from './history/operation.ts';
import { makeTable, RegisterClients } from './history/register-clients.ts';
import { type Cluster, startOne, startReplicas, withoutReplicas } from './nemesis/cluster.ts';
import { withoutNamespaces } from './nemesis/namespace.ts';
import { Nemesis } from './nemesis/nemesis.ts';

/** Hundreds by hand: `LANCEGATE_TEST_SEEDS=200`. */
const seeds = Number(process.env.LANCEGATE_TEST_SEEDS ?? 1);
const firstSeed = Number(process.env.LANCEGATE_TEST_SEED ?? 1);
/** Each has a table of its own. */
const seedsPerCluster = 10;
/** A run ends when so many writes were acknowledged and so much was broken, or when its time is over. */
const enoughWrites = Number(process.env.LANCEGATE_TEST_WRITES ?? 60);
const enoughHarms = Math.ceil(enoughWrites / 15);
const longestMs = 60_000 + 500 * enoughWrites;
const requestTimeoutMs = 8_000;

interface Shape {
  readonly start: (after: (clean: () => void | Promise<void>) => void) => Promise<Cluster>;
  readonly atOnce: number;
  readonly longestFreezeMs: number;
  readonly skip?: string | undefined;
}

const shapes: Readonly<Record<string, Shape>> = {
  'one process on a folder': { start: (after) => startOne(after, 'folder'), atOnce: 1, longestFreezeMs: 3_000 },
  'one process on an object store': {
    start: (after) => startOne(after, 'store'),
    atOnce: 2,
    longestFreezeMs: 3_000,
    skip: withoutS3Gateway,
  },
  'three replicas on PostgreSQL and an object store': {
    start: (after) => startReplicas(after, 3, withoutNamespaces === undefined ? 'namespaces' : 'proxies alone'),
    atOnce: 2,
    longestFreezeMs: 20_000,
    skip: withoutReplicas,
  },
};

for (const [title, shape] of Object.entries(shapes)) {
  for (let from = firstSeed; from < firstSeed + seeds; from += seedsPerCluster) {
    describe(title, { skip: shape.skip ?? false }, () => {
      const after = afterSuite();
      let cluster: Cluster;
      before(async () => {
        cluster = await shape.start(after);
      });
      for (let seed = from; seed < Math.min(from + seedsPerCluster, firstSeed + seeds); seed++) {
        test(`keeps its promises whatever breaks, seed ${seed} (P1 to P6, P11)`, (t) =>
          withstand(cluster, shape, seed, (text) => t.diagnostic(text)));
      }
    });
  }
}

async function withstand(cluster: Cluster, shape: Shape, seed: number, say: (text: string) => void): Promise<void> {
  const { members, authorization } = cluster;
  const targetOf = (urls: readonly string[]) => new HttpTarget(urls, authorization, requestTimeoutMs);
  const target = targetOf(members.map(({ replica }) => replica.url));
  const table = `registers_${seed}`;
  await makeTable(target, table);
  const endMs = performance.now() + longestMs;
  const isOver = (): boolean =>
    (clients.acknowledged >= enoughWrites && nemesis.harms.length >= enoughHarms) || performance.now() > endMs;
  const random = new Random(seed);
  const clients = new RegisterClients({
    target: new LosingTarget(target, new Random(seed), { percent: 5, longestMs: 1_000 }),
    table,
    registers: 300,
    contended: 16,
    clients: 8,
    operations: Number.POSITIVE_INFINITY,
    randomOf: (client) => new Random(seed * 1_000 + client),
    isOver,
  });
  const { atOnce, longestFreezeMs } = shape;
  const acknowledged = () => clients.acknowledged;
  const nemesis = new Nemesis(cluster, { acknowledged, random, atOnce, longestFreezeMs });
  await Promise.all([clients.run(), nemesis.run(isOver)]);
  for (const { toStore } of members) await toStore?.delivered();
  for (const { replica } of members) await clients.readAll(targetOf([replica.url]));

  const { writes, reads } = clients.history;
  const outcomes = Map.groupBy(writes, ({ outcome }) => outcome.kind);
  const counts = [...outcomes].map(([kind, { length }]) => `${length} ${kind}`).join(', ');
  say(
    `${writes.length} writes (${counts}), ${reads.length} reads, ${operationsIn(clients.history)} operations on registers`,
  );
  const harms = Map.groupBy(nemesis.harms, (name) => name);
  say(`${nemesis.harms.length} harms: ${[...harms].map(([name, { length }]) => `${length} ${name}`).join(', ')}`);
  const crashes = members.flatMap(({ replica }) => (replica.hasCrashed ? [`${replica.name}: ${replica.log}`] : []));
  const found = [...crashes, ...clients.surprises, ...violationsOf(clients.history)];
  const story = () => [...nemesis.done, ...members.map(({ replica }) => replica.log)].join('\n');
  assert.equal(found.length, 0, `${found.slice(0, 20).join('\n')}\n\n${story()}`);
}

/** A row without a key is a register of its own. */
const operationsIn = ({ writes, reads }: History): number =>
  [
    ...writes.map(({ change }) => (change.kind === 'append' ? 1 : change.keys.length)),
    ...reads.map(({ keys }) => keys.length),
  ].reduce((sum, each) => sum + each, 0);
