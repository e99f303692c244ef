/** HAProxy and nginx as deploy/ sets them up, before three replicas that freeze, say that they take no requests, and are restarted. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { freePort } from '#test/fixtures/free-port.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';
import { HttpTarget } from './history/http-target.ts';
import { makeTable, registerRows } from './history/register-clients.ts';
import { type Cluster, startReplicas, withoutReplicas } from './nemesis/cluster.ts';
import type { Replica } from './nemesis/replica.ts';

const programs = ['haproxy', 'nginx'].map((name) =>
  [name, `/usr/sbin/${name}`].find((path) => spawnSync(path, ['-v']).error === undefined),
);
const [haproxy = '', nginx = ''] = programs;
const without =
  withoutReplicas ?? (programs.includes(undefined) ? '.ci/install-balancers has not been run' : undefined);
const deployed = (name: string): string => readFileSync(join(import.meta.dirname, '../../deploy', name), 'utf8');
const table = 'balanced';
const clients = 16;
/** Far above what HAProxy allows. */
const patienceMs = 30_000;

type After = (clean: () => void | Promise<void>) => void;

/** What HAProxy says of a replica. */
interface Seen {
  readonly status: string;
  /** Since the start. */
  readonly requests: number;
}

interface Haproxy {
  readonly url: string;
  see(index: number): Promise<Seen>;
}

const onPortsOf = (text: string, replicas: readonly Replica[]): string =>
  text.replace(/replica-(\d):2333/g, (_, number) => `127.0.0.1:${replicas[Number(number) - 1]?.port}`);

/** With a socket to ask it by. */
async function startHaproxy(after: After, replicas: readonly Replica[]): Promise<Haproxy> {
  const folder = temporaryFolder(after);
  const [port, readinessPort] = [await freePort(), await freePort()];
  const text = onPortsOf(deployed('haproxy.cfg'), replicas)
    .replace('bind :2333', `bind 127.0.0.1:${port}`)
    .replace('bind 127.0.0.1:2334', `bind 127.0.0.1:${readinessPort}`)
    .replace('port 2334', `port ${readinessPort}`)
    .replace('global\n', `global\n  stats socket ${folder}/socket\n`);
  assert.ok(!/\b233[34]\b/.test(text), text);
  const path = join(folder, 'haproxy.cfg');
  writeFileSync(path, text);
  const url = await startProgram(after, haproxy, ['-db', '-f', path], port);
  return { url, see: (index) => seen(`${folder}/socket`, `replica-${index + 1}`) };
}

/** Returns the URL. */
async function startNginx(after: After, replicas: readonly Replica[]): Promise<string> {
  const folder = temporaryFolder(after);
  const port = await freePort();
  const text = onPortsOf(deployed('nginx.conf'), replicas)
    .replace('listen 2333', `listen 127.0.0.1:${port}`)
    .replace('http {', 'http { access_log off;');
  const path = join(folder, 'nginx.conf');
  writeFileSync(path, `pid ${folder}/pid; error_log stderr; daemon off;\n${text}`);
  chmodSync(folder, 0o755);
  return startProgram(after, nginx, ['-p', folder, '-c', path], port);
}

async function startProgram(after: After, program: string, args: readonly string[], port: number): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  after(() => void child.kill('SIGTERM'));
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const url = `http://127.0.0.1:${port}`;
  const answers = () =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(`${program} answers`, answers, () => said);
  return url;
}

async function seen(socket: string, server: string): Promise<Seen> {
  const asking = connect(socket);
  asking.end('show stat\n');
  const [names = [], ...rows] = Buffer.concat(await asking.toArray())
    .toString()
    .split('\n')
    .map((line) => line.split(','));
  const row = rows.find(([backend, name]) => backend === 'replicas' && name === server) ?? [];
  return { status: row[names.indexOf('status')] ?? '', requests: Number(row[names.indexOf('stot')]) };
}

interface Answered {
  /** Or `broken`, if the connection was, or the client's patience is over. */
  readonly status: number | 'broken';
  /** The answer or the failure, where the status is not 200. */
  readonly text: string;
}

interface Asked extends Answered {
  readonly kind: 'read' | 'write';
  readonly tookMs: number;
}

/** Clients, on connections that they keep, each of which asks again when it has an answer; they send no request twice. */
class Clients {
  readonly asked: Asked[] = [];
  readonly #url: string;
  readonly #authorization: string;
  readonly #running: Promise<unknown>;
  #isOver = false;

  constructor(url: string, authorization: string) {
    this.#url = url;
    this.#authorization = authorization;
    this.#running = Promise.all(Array.from({ length: clients }, (_, client) => this.#run(client)));
  }

  async answered(count: number): Promise<void> {
    for (const wanted = this.asked.length + count; this.asked.length < wanted; ) await pause(20);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #run(client: number): Promise<void> {
    const kind = client % 2 === 0 ? 'read' : 'write';
    for (let turn = 0; !this.#isOver; turn++) {
      const beganMs = performance.now();
      const answered = await (kind === 'read' ? this.#read() : this.#write(client, `${client}-${turn}`));
      this.asked.push({ ...answered, kind, tookMs: performance.now() - beganMs });
    }
  }

  #read() {
    return this.#post('count_rows', 'application/json', '{}');
  }

  #write(client: number, value: string) {
    const rows = new Uint8Array(registerRows([client], value));
    return this.#post('merge_insert?on=id', 'application/vnd.apache.arrow.stream', rows);
  }

  async #post(route: string, type: string, body: string | Uint8Array<ArrayBuffer>): Promise<Answered> {
    try {
      const headers = { authorization: this.#authorization, 'content-type': type };
      const signal = AbortSignal.timeout(patienceMs);
      const answer = await fetch(`${this.#url}/v1/table/${table}/${route}`, { method: 'POST', headers, body, signal });
      const text = await answer.text();
      return { status: answer.status, text: answer.ok ? '' : text };
    } catch (error) {
      const text = error instanceof Error ? `${error.message}: ${error.cause}` : String(error);
      return { status: 'broken', text }; // translated: the outcome is not known
    }
  }
}

const longestMs = (asked: readonly Asked[], kind: Asked['kind']): number =>
  Math.max(...asked.filter((one) => one.kind === kind).map(({ tookMs }) => tookMs));

const byStatus = (asked: readonly Asked[]) =>
  Object.fromEntries(
    Object.entries(Object.groupBy(asked, ({ status }) => `${status}`)).map(([k, v]) => [k, v?.length]),
  );

/** What clients were told instead of 200, each text once, and what the replicas logged. */
function refusalsIn(asked: readonly Asked[], { members }: Cluster): string {
  const failed = asked.filter(({ status }) => status !== 200);
  if (failed.length === 0) return '';
  const told = new Set(failed.map(({ kind, status, text }) => `${kind} ${status}: ${text}`));
  return [...told, ...members.map(({ replica: { name, log } }) => `${name} logged:\n${log}`)].join('\n');
}

const byKind = (asked: readonly Asked[]) => ({
  read: byStatus(asked.filter(({ kind }) => kind === 'read')),
  write: byStatus(asked.filter(({ kind }) => kind === 'write')),
});

describe('balancers before three replicas', { skip: without ?? false }, () => {
  const after = afterSuite();
  let cluster: Cluster;
  let balancer: Haproxy;
  let nginxUrl: string;
  before(async () => {
    cluster = await startReplicas(after, 3);
    const replicas = cluster.members.map(({ replica }) => replica);
    balancer = await startHaproxy(after, replicas);
    nginxUrl = await startNginx(after, replicas);
    await makeTable(new HttpTarget([balancer.url], cluster.authorization), table);
  });

  const isSeen = (index: number, what: RegExp) =>
    eventually(`replica ${index + 1} is ${what}`, async () => what.test((await balancer.see(index)).status));

  const underLoad = async (work: (load: Clients) => Promise<void>, url = balancer.url): Promise<readonly Asked[]> => {
    const load = new Clients(url, cluster.authorization);
    try {
      await load.answered(100);
      await work(load);
      await load.answered(100);
    } finally {
      await load.stop();
    }
    return load.asked;
  };

  test('HAProxy lets a frozen replica hold up its requests for seconds, and no later ones', async (t) => {
    for (const [index, { replica }] of cluster.members.entries()) {
      const asked = await underLoad(async (load) => {
        replica.freeze();
        await isSeen(index, /^DOWN/);
        await load.answered(100);
        const { requests } = await balancer.see(index);
        await load.answered(300);
        assert.equal((await balancer.see(index)).requests, requests);
      });
      replica.thaw();
      await isSeen(index, /^UP/);
      const [read, write] = [longestMs(asked, 'read'), longestMs(asked, 'write')];
      t.diagnostic(`${replica.name}: longest read ${read.toFixed(0)} ms, write ${write.toFixed(0)} ms`);
      t.diagnostic(JSON.stringify(byKind(asked)));
      assert.ok(read < 10_000 && write < 20_000);
      // A writer whose request was cut off may lose the next one too, if the frozen replica owns the table.
      const lost = (wanted: Asked['kind']) =>
        asked.filter(({ kind, status }) => kind === wanted && status !== 200).length;
      assert.ok(
        lost('read') <= clients / 2 && lost('write') <= clients,
        `${JSON.stringify(byKind(asked))}\n${refusalsIn(asked, cluster)}`,
      );
    }
  });

  test('HAProxy sends nothing to a replica without its catalog, and no reader sees its 503', async (t) => {
    const [index, { toCatalog }] = [1, cluster.members[1]!];
    const asked = await underLoad(async (load) => {
      toCatalog!.state = 'cut';
      await isSeen(index, /^NOLB/);
      const { requests } = await balancer.see(index);
      await load.answered(300);
      assert.equal((await balancer.see(index)).requests, requests);
      toCatalog!.state = 'open';
      await isSeen(index, /^UP/);
    });
    t.diagnostic(JSON.stringify(byKind(asked)));
    // If it owns the table, writes are refused until its lease has ended, by whichever replica.
    assert.deepEqual(Object.keys(byKind(asked).read), ['200'], refusalsIn(asked, cluster));
  });

  test('HAProxy loses no request of a rolling restart', async (t) => {
    const asked = await underLoad(async (load) => {
      for (const [index, { replica }] of cluster.members.entries()) {
        await replica.stop();
        await replica.start();
        await isSeen(index, /^UP/);
        await load.answered(100);
      }
    });
    t.diagnostic(`${asked.length} requests`);
    assert.deepEqual(byStatus(asked), { 200: asked.length }, refusalsIn(asked, cluster));
  });

  test('nginx asks another replica where one without its catalog refuses a read', async (t) => {
    const [index, { toCatalog }] = [1, cluster.members[1]!];
    const asked = await underLoad(async (load) => {
      toCatalog!.state = 'cut';
      await isSeen(index, /^NOLB/);
      await load.answered(300);
      toCatalog!.state = 'open';
      await isSeen(index, /^UP/);
    }, nginxUrl);
    t.diagnostic(JSON.stringify(byKind(asked)));
    assert.deepEqual(Object.keys(byKind(asked).read), ['200'], refusalsIn(asked, cluster));
  });

  test('nginx loses no read of a rolling restart', async (t) => {
    const asked = await underLoad(async (load) => {
      for (const { replica } of cluster.members) {
        await replica.stop();
        await replica.start();
        await load.answered(100);
      }
    }, nginxUrl);
    t.diagnostic(JSON.stringify(byKind(asked)));
    assert.deepEqual(Object.keys(byKind(asked).read), ['200'], refusalsIn(asked, cluster));
  });
});
