/**
 * Keeps a copy of a table in a second service, until it is stopped (docs/how-to/another-table.md):
 *
 *   SOURCE_KEY=… TARGET_KEY=… node samples/copy-table.ts http://source:2333 http://target:2333 people id
 *
 * It may be killed at any moment, as both services may. It keeps no file: the source remembers by two consumers how far the copy is.
 * `NAME-next` is the version that it is being taken to, set before the first row is written, and `NAME` the one that it has reached. So
 * after a break the same changes are applied again: those to a later version would say nothing of a row that came and went meanwhile.
 */
import { setTimeout as pause } from 'node:timers/promises';

const [source = '', target = '', table = '', ...on] = process.argv.slice(2);
if (on.length === 0) throw new Error('usage: copy-table.ts SOURCE_URL TARGET_URL TABLE KEY_COLUMN…');
const consumer = process.env.CONSUMER ?? 'copy';
const wait = process.env.WAIT ?? '30s';
const rowsAtOnce = 2_000;

/** What a service has refused; any other error is one of the network. */
class Refused extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(`${status} ${text.slice(0, 500)}`);
    this.status = status;
  }
}

async function ask(url: string, path: string, body: BodyInit, headers: Record<string, string> = {}): Promise<Response> {
  const key = (url === source ? process.env.SOURCE_KEY : process.env.TARGET_KEY) ?? '';
  const answer = await fetch(`${url}/v1/table/${table}/${path}`, {
    method: 'POST',
    body,
    headers: { authorization: `Bearer ${key}`, ...headers },
    duplex: 'half',
  } as RequestInit);
  if (answer.ok) return answer;
  throw new Refused(answer.status, await answer.text());
}

const askJson = async (url: string, path: string, body: object): Promise<Record<string, unknown>> =>
  (await (await ask(url, path, JSON.stringify(body))).json()) as Record<string, unknown>;

const acknowledge = (name: string, version: number) =>
  askJson(source, 'changes/acknowledge', { consumer: name, version });

/** Undefined where the service answers with this status. */
const unless = async <Result>(status: number, work: Promise<Result>): Promise<Result | undefined> => {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Refused && error.status === status) return undefined;
    throw error;
  }
};

/** The whole table as one create, which is there wholly or not at all. */
async function copyAnew(): Promise<void> {
  await unless(404, askJson(source, 'tags/delete', { tag: `consumer-${consumer}` }));
  const version = Number((await askJson(source, 'describe', {})).version);
  await acknowledge(`${consumer}-next`, version);
  const type = 'application/vnd.apache.arrow.stream';
  const rows = await ask(source, 'query', JSON.stringify({ version }), { accept: type });
  await ask(target, 'create?mode=overwrite', rows.body ?? '', { 'content-type': type });
  await acknowledge(consumer, version);
  console.log(`copied version ${version}`);
}

/** Returns false where the source has no changes for the consumer any more. */
async function follow(until?: number): Promise<boolean> {
  const headers = { accept: 'application/x-ndjson' };
  const query = until === undefined ? `changes?wait=${wait}` : 'changes';
  const answer = await unless(410, ask(source, query, JSON.stringify({ consumer, on, until }), headers));
  if (answer === undefined) return false;
  const version = Number(answer.headers.get('x-lancegate-version'));
  await acknowledge(`${consumer}-next`, version);
  const taken = await applyAll(answer);
  await acknowledge(consumer, version);
  if (taken > 0) console.log(`took ${taken} rows to version ${version}`);
  return true;
}

async function applyAll(answer: Response): Promise<number> {
  let [rows, gone, taken]: [string[], string[], number] = [[], [], 0];
  for await (const line of linesOf(answer)) {
    const [start = '', change] = /^\{"_change":"(\w+)","_version":\d+,/.exec(line) ?? [];
    if (change === 'delete') gone.push(conditionOf(line));
    else rows.push(`{${line.slice(start.length)}`);
    taken += 1;
    if (rows.length + gone.length < rowsAtOnce) continue;
    await apply(rows, gone);
    [rows, gone] = [[], []];
  }
  await apply(rows, gone);
  return taken;
}

async function* linesOf({ body }: Response): AsyncGenerator<string> {
  let rest = '';
  for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}

async function apply(rows: readonly string[], gone: readonly string[]): Promise<void> {
  const keys = on.map((column) => `on=${encodeURIComponent(column)}`).join('&');
  const type = { 'content-type': 'application/x-ndjson' };
  if (gone.length > 0) await askJson(target, 'delete', { predicate: gone.join(' OR ') });
  if (rows.length > 0) await ask(target, `merge_insert?${keys}`, rows.join('\n'), type);
}

/** Numbers as they are written: JavaScript would round long ones. */
function conditionOf(line: string): string {
  const literals = JSON.parse(line, (_, value: unknown, { source: text }: { source?: string } = {}) => {
    if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`;
    return text ?? value;
  }) as Record<string, string>;
  return `(${on.map((column) => `\`${column}\` = ${literals[column]}`).join(' AND ')})`;
}

async function run(): Promise<never> {
  let isResumed = false;
  for (;;) {
    try {
      if (!isResumed) {
        const tag = await unless(404, askJson(source, 'tags/version', { tag: `consumer-${consumer}-next` }));
        if (tag === undefined || !(await follow(Number(tag.version)))) await copyAnew();
        isResumed = true;
      }
      if (!(await follow())) await copyAnew();
    } catch (error) {
      isResumed = false;
      console.error(String(error));
      // The target has other columns than the source, or lost the table.
      if (error instanceof Refused && [400, 404].includes(error.status)) await copyAnew().catch(console.error);
      await pause(500);
    }
  }
}

await run();
