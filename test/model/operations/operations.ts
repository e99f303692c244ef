/** All operations, and how often each is drawn. */
import type { Random } from '../random.ts';
import { sourceText } from '../steps.ts';
import { fromJson, toJson } from '../values.ts';
import { columnOperations } from './column-operations.ts';
import { randomNewName } from './drawing.ts';
import { indexOperations } from './index-operations.ts';
import { drawCreateNamespace, namespaceOperations } from './namespace-operations.ts';
import { type Expected, type Keyed, type Operation, type Request, refused } from './operation.ts';
import { readOperations } from './read-operations.ts';
import { drawCreate, rowOperations } from './row-operations.ts';
import { tableOperations } from './table-operations.ts';
import { transact } from './transact-operation.ts';
import { versionOperations } from './version-operations.ts';
import { emptyWorld, put, type World } from './world.ts';

const operations = {
  ...rowOperations,
  ...columnOperations,
  ...versionOperations,
  ...indexOperations,
  ...tableOperations,
  ...namespaceOperations,
  ...readOperations,
  transact,
};

type Kind = keyof typeof operations;
type StepOf<Of> = Of extends Operation<infer Step> ? Step : never;
/** A restart changes nothing, save that the service has nothing in memory any more. */
type AnyStep = StepOf<(typeof operations)[Kind]> | { readonly kind: 'restart'; readonly table?: undefined };
export type Step = AnyStep & Keyed;

const weights: Readonly<Record<Kind | 'restart', number>> = {
  create: 3,
  insert: 9,
  merge: 11,
  update: 9,
  delete: 6,
  'add columns': 4,
  'add null columns': 2,
  'alter columns': 5,
  'drop columns': 3,
  'field metadata': 2,
  'schema metadata': 2,
  restore: 4,
  'delete versions': 3,
  'create tag': 4,
  'update tag': 2,
  'delete tag': 2,
  'create branch': 4,
  'delete branch': 2,
  maintain: 3,
  'create index': 4,
  'drop index': 2,
  declare: 1,
  drop: 1,
  deregister: 1,
  register: 2,
  rename: 2,
  clone: 2,
  'create namespace': 2,
  'drop namespace': 1,
  count: 3,
  query: 6,
  describe: 3,
  transact: 6,
  restart: 1,
};

const operationOf = (kind: Kind): Operation<Step & { readonly kind: string }> =>
  operations[kind] as unknown as Operation<Step & { readonly kind: string }>;

export function randomStep(random: Random, world: World): Step {
  const again = random.chance(5) ? repeated(random, world) : undefined;
  return again ?? keyed(random, drawn(random, world));
}

function drawn(random: Random, world: World): Step {
  if (world.namespaces.size < 2 && random.chance(20)) return drawCreateNamespace(random);
  if (world.tables.size < 2 && random.chance(50)) return drawCreate(random, randomNewName(random, world));
  const kind = random.weighted(Object.entries(weights).map(([name, weight]) => [weight, name as Kind | 'restart']));
  if (kind === 'restart') return { kind };
  return operationOf(kind).draw(random, world) ?? drawn(random, world);
}

/** Routes that heed `Idempotency-Key`, and those that take the `x-request-id` for one too. */
const byKey: readonly string[] = ['create', 'insert', 'merge', 'transact'];
const byEither: readonly string[] = [
  ...['update', 'delete', 'restore', 'create index', 'drop index'],
  ...Object.keys(columnOperations),
];

function keyed(random: Random, step: Step): Step {
  if (![...byKey, ...byEither].includes(step.kind) || !random.chance(20)) return step;
  const header = byEither.includes(step.kind) && random.chance(50) ? 'x-request-id' : 'idempotency-key';
  return { ...step, key: { header, value: `k${random.int(60)}` } };
}

/** One that was answered before, as a client sends it that lost the answer. */
function repeated(random: Random, { answers }: World): Step | undefined {
  return answers.size === 0 ? undefined : (fromJson(random.pick([...answers.values()]).step) as Step);
}

/** The id of a request is a key for the same request only; with anything else it is another key. */
function keyName({ key, ...step }: Step): string {
  if (key === undefined) return '';
  return key.header === 'idempotency-key' ? key.value : `${key.value} ${toJson(step)}`;
}

export function expectStep(world: World, step: Step): Expected {
  const first = step.key && world.answers.get(keyName(step));
  if (first !== undefined) {
    return first.step === toJson(step)
      ? { answer: first.fields, isReplay: true, world: () => world }
      : refused('InvalidInput');
  }
  if (step.kind === 'restart') return { answer: {}, world: () => world };
  const expected = operationOf(step.kind).expect(world, step);
  return 'refused' in expected || step.key === undefined ? expected : remembered(expected, step);
}

/** Only successes are: what was refused wrote nothing, and may be tried again under its key. */
const remembered = (expected: Exclude<Expected, { refused: unknown }>, step: Step): Expected => ({
  ...expected,
  world(body) {
    const { transaction_id } = body;
    const fields = { ...expected.answer, ...(transaction_id !== undefined && { transaction_id }) };
    const next = expected.world(body);
    return { ...next, answers: put(next.answers, keyName(step), { step: toJson(step), fields }) };
  },
});

/** Undefined for a restart. */
export function requestOf(world: World, step: Step): Request | undefined {
  if (step.kind === 'restart') return undefined;
  const request = operationOf(step.kind).request(world, step);
  if (step.key === undefined) return request;
  const { header, value } = step.key;
  return { ...request, headers: { ...request.headers, [header]: `${world.root}-${value}` } };
}

/** For people: the request, and the rows that go with it. */
export function stepText(step: Step): string {
  const { kind, table = '', ...rest } = step as Step & { readonly table?: string };
  const request = requestOf(emptyWorld('root'), step);
  const source = 'source' in rest ? `: ${sourceText(rest.source)}` : '';
  const body = request?.body === undefined || Buffer.isBuffer(request.body) ? '' : JSON.stringify(request.body);
  const members = 'members' in rest ? rest.members.map((member) => `\n      ${toJson(member)}`).join('') : '';
  const key = step.key === undefined ? '' : ` (${step.key.header} ${step.key.value})`;
  return `${kind} ${table} ${decodeURIComponent(request?.operation.replaceAll('+', ' ') ?? '')} ${body}${key}${source}${members}`;
}
