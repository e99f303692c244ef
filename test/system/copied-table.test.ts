/** The program that keeps a copy of a table in a second service, while it and both services are killed at any moment. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '#test/fixtures/free-port.ts';
import { listeningUrl, mintToken } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

const kills = Number(process.env.LANCEGATE_COPY_KILLS ?? 4);
const seed = Number(process.env.LANCEGATE_COPY_SEED ?? 1);
const folder = join(import.meta.dirname, '../..');

/** A program that starts again after each kill. */
class Killed {
  readonly #start: () => ChildProcess;
  readonly #whenUp: (child: ChildProcess) => Promise<unknown>;
  #child: ChildProcess | undefined;

  constructor(start: () => ChildProcess, whenUp: (child: ChildProcess) => Promise<unknown> = async () => undefined) {
    this.#start = start;
    this.#whenUp = whenUp;
  }

  async start(): Promise<void> {
    this.#child = this.#start();
    this.#child.stderr?.resume();
    await this.#whenUp(this.#child);
    this.#child.stdout?.resume();
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return;
    const end = once(child, 'close');
    child.kill('SIGKILL');
    await end;
  }
}

class Side {
  readonly url: string;
  readonly token: string;
  readonly service: Killed;

  static async open(t: TestContext): Promise<Side> {
    const data = temporaryFolder((clean) => t.after(clean));
    const side = new Side(data, await freePort(), await mintToken(data));
    t.after(() => side.service.kill());
    await side.service.start();
    return side;
  }

  private constructor(data: string, port: number, token: string) {
    this.url = `http://127.0.0.1:${port}`;
    this.token = token;
    const main = join(folder, 'bin/lancegate.js');
    const flags = ['serve', '--port', String(port), '--data', data, '--log-level', 'error'];
    // Without the LANCEGATE_* variables of the user who runs the tests.
    const options = { stdio: 'pipe', env: { PATH: process.env.PATH } } as const;
    this.service = new Killed(() => spawn(process.execPath, [main, ...flags], options), listeningUrl);
  }

  async ask(path: string, body: string | object = {}): Promise<string> {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const type = typeof body === 'string' ? 'application/x-ndjson' : 'application/json';
    const headers = {
      authorization: `Bearer ${this.token}`,
      'content-type': type,
      accept: '*/*;q=0.1, application/x-ndjson',
    };
    const answer = await fetch(`${this.url}/v1/table/people/${path}`, { method: 'POST', body: text, headers });
    const said = await answer.text();
    assert.ok(answer.ok, `${path}: ${answer.status} ${said}`);
    return said;
  }

  /** In any order. */
  async rows(): Promise<readonly string[]> {
    return (await this.ask('query')).split('\n').sort();
  }

  async version(): Promise<number> {
    return (JSON.parse(await this.ask('describe')) as { version: number }).version;
  }
}

const rowsOf = (ids: readonly number[], name: string): string =>
  ids.map((id) => JSON.stringify({ id, name })).join('\n');

test('a copy is the table, whatever is killed (P1, P6)', { timeout: 600_000 }, async (t) => {
  const random = new Random(seed);
  const [source, target] = [await Side.open(t), await Side.open(t)];
  const range = (most: number) => Array.from({ length: 1 + random.int(most) }, (_, i) => i + random.int(5_000));
  await source.ask('create', rowsOf(range(3_000), 'first'));
  const environment = { PATH: process.env.PATH, SOURCE_KEY: source.token, TARGET_KEY: target.token, WAIT: '1s' };
  const copier = new Killed(() => {
    const args = [join(folder, 'samples/copy-table.ts'), source.url, target.url, 'people', 'id'];
    return spawn(process.execPath, args, { env: environment, stdio: 'pipe' });
  });
  t.after(() => copier.kill());
  await copier.start();

  let isOver = false;
  /** A write that is cut off is done or not; either way the copy follows the table. */
  const writing = (async () => {
    for (let round = 0; !isOver; round += 1) {
      const from = random.int(5_000);
      const ids = [...new Set(range(400))];
      await (random.chance(70)
        ? source.ask('merge_insert?on=id', rowsOf(ids, `round ${round}`))
        : source.ask('delete', { predicate: `id >= ${from} AND id < ${from + 300}` })
      ).catch(() => pause(50));
    }
  })();
  for (let kill = 0; kill < kills; kill += 1) {
    await pause(300 + random.int(1_500));
    const victim = random.pick([source.service, target.service, copier]);
    await victim.kill();
    await victim.start();
  }
  isOver = true;
  await writing;
  const taken = async () => {
    const tag = await source.ask('tags/version', { tag: 'consumer-copy' }).catch(() => '{}');
    return (JSON.parse(tag) as { version?: number }).version;
  };
  while ((await taken()) !== (await source.version())) await pause(100);
  assert.deepEqual(await target.rows(), await source.rows());
});
