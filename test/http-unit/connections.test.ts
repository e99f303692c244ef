/** No connection is there for nothing for longer than its time, whatever its client does or leaves undone (P12). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Operations } from '#src/http/routes/api.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { TableRef } from '#src/kernel/ids.ts';
import { eventually } from '#test/http/eventually.ts';
import { ManualClock } from './manual-clock.ts';
import { answered, describedTable } from './scripted-operations.ts';
import { startTestService, type TestOptions, type TestService, token } from './service.ts';

const request = (line: string, ...headers: readonly string[]): string =>
  [`${line} HTTP/1.1`, 'host: x', `authorization: Bearer ${token}`, ...headers, '', ''].join('\r\n');
const healthz = request('GET /healthz');

const peersOf = new Map<number, Set<Peer>>();

/** Lets go of the clients before it stops: a clock that stands still would wait for them for ever. */
async function start(options: TestOptions = {}): Promise<TestService> {
  const service = await startTestService(options);
  const peers = new Set<Peer>();
  peersOf.set(service.port, peers);
  const dispose = () => {
    for (const peer of peers) peer.socket.destroy();
    return service.close(0);
  };
  return { ...service, [Symbol.asyncDispose]: dispose };
}

const dropped = (location = 'x') =>
  answered({ ...describedTable({ namespace: [], name: 't' } as unknown as TableRef), location });

/** A client of its own mind: it never closes because the other side did, and reads only if the test says so. */
class Peer {
  readonly socket: Socket;
  received = '';
  isClosed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.isClosed = true;
    });
  }

  static async connect({ port }: TestService, localAddress = '127.0.0.1'): Promise<Peer> {
    const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true });
    await once(socket, 'connect');
    const peer = new Peer(socket);
    peersOf.get(port)?.add(peer);
    return peer;
  }

  read(): this {
    this.socket.on('data', (chunk: Buffer) => {
      this.received += chunk.toString();
    });
    return this;
  }

  write(text: string | Uint8Array): this {
    this.socket.write(text);
    return this;
  }

  get answers(): readonly string[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status ?? '');
  }
}

async function metric(service: TestService, name: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, connection: 'close' };
  const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}

const closed = (service: TestService, reason: string): Promise<number> =>
  metric(service, `lancegate_closed_connections_total{reason="${reason}"}`);

const short = { requestHeaderTimeoutMs: 300, keepAliveTimeoutMs: 300, uploadIdleTimeoutMs: 300 };
const long = { requestHeaderTimeoutMs: 600_000, keepAliveTimeoutMs: 600_000, uploadIdleTimeoutMs: 600_000 };

describe('a connection ends within two seconds of its time', { concurrency: true }, () => {
  const lingering: Readonly<Record<string, (peer: Peer) => void>> = {
    'that never sent a byte': () => undefined,
    'that sent half of its headers': (peer) => peer.write('GET /healthz HTTP/1.1\r\nhost'),
    'that was answered and says nothing more': (peer) => peer.write(healthz),
    'that was answered and began another request': (peer) => peer.write(`${healthz}GET /healthz HTTP/1.1\r\nhost: x`),
    'that was answered that it speaks no HTTP': (peer) => peer.write('NONSENSE\r\n\r\n'),
    'that begins with a TLS hello': (peer) => peer.write(Buffer.from('16030100c8010000c40303', 'hex')),
    'that asks for a tunnel': (peer) => peer.write('CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\n'),
    'whose body was forgotten, and never comes': (peer) =>
      peer.write(request('POST /v1/table/t/merge_insert?on=id', 'content-length: 1000')),
    'whose refused body never comes': (peer) =>
      peer.write(`POST /v1/table/t/create HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n`),
    'that waits for a 100 Continue, hears it and says nothing': (peer) =>
      peer.write(request('POST /v1/table/t/create', 'content-length: 100', 'expect: 100-continue')),
  };
  for (const [which, begin] of Object.entries(lingering)) {
    for (const reads of [true, false]) {
      test(`one ${which}, whose client ${reads ? 'reads, but' : 'neither reads nor'} closes`, async () => {
        const isForgotten = which.includes('forgotten');
        const script = isForgotten ? endlessCreate : {};
        const isRefusedAtOnce = /HTTP|TLS|tunnel/.test(which); // no other time may be what ends it
        const { keepAliveTimeoutMs } = long;
        const times = isRefusedAtOnce ? long : isForgotten ? { ...short, keepAliveTimeoutMs } : short;
        await using service = await start({ script, config: { ...times, maxConcurrentWrites: 1 } });
        if (isForgotten) await fill(service);
        const peer = await Peer.connect(service);
        if (reads) peer.read();
        else peer.socket.pause();
        begin(peer);
        const left = isForgotten ? 1 : 0;
        await eventually('it is open', () => service.connections() === left + 1);
        await eventually('it is gone', () => service.connections() === left);
      });
    }
  }

  test('one whose client sends empty lines between its requests, which are nothing', async () => {
    await using service = await start({ config: short });
    const peer = (await Peer.connect(service)).read().write(healthz);
    const drip = setInterval(() => peer.write('\r\n'), 50);
    using _drip = { [Symbol.dispose]: () => clearInterval(drip) };
    await eventually('it is answered', () => peer.answers.length === 1);
    await eventually('it is gone', () => peer.isClosed || peer.socket.readableEnded);
    assert.equal(await closed(service, 'silent'), 1);
  });
});

/** A write that takes the only place until its client leaves. */
const endlessCreate = {
  createTable: (_: unknown, { signal }: { signal: AbortSignal }) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
} as unknown as Partial<Operations>;

async function fill(service: TestService): Promise<void> {
  (await Peer.connect(service)).read().write(request('POST /v1/table/t/create', 'transfer-encoding: chunked'));
  await eventually('the create is under way', () => service.asked.length === 1);
}

describe('an answer that its client does not take', () => {
  const large = 'x'.repeat(24 * 2 ** 20);
  /** More than the kernel takes for a client that does not read. */
  const script = {
    dropTable: async () => dropped(large),
  } as unknown as Partial<Operations>;
  const dropTable = request('POST /v1/table/t/drop', 'content-length: 2');

  test('ends its connection after the time of its size', async () => {
    const clock = new ManualClock();
    await using service = await start({ clock, script, config: { uploadIdleTimeoutMs: 300 } });
    const peer = await Peer.connect(service);
    peer.socket.pause();
    peer.write(`${dropTable}{}`);
    await eventually('it is under way', () => service.asked.length === 1);
    const look = () => clock.advance(500);
    for (let i = 0; i < 10; i++) {
      await turn();
      look();
    }
    await eventually('it is still there, since it may be slow', () => service.connections() === 1);
    await eventually('it is gone', () => {
      clock.advance(large.length);
      return service.connections() === 0;
    });
    assert.equal(await closed(service, 'unread'), 1);
  });

  test('ends its connection at once where such answers take more than their part of the memory', async () => {
    const clock = new ManualClock();
    await using service = await start({ clock, script });
    for (let i = 0; i < 4; i++) {
      const peer = await Peer.connect(service);
      peer.socket.pause();
      peer.write(`${dropTable}{}`);
      await eventually('it is under way', () => service.asked.length === i + 1);
    }
    for (let i = 0; i < 4; i++) {
      await turn();
      clock.advance(500);
    }
    await eventually('enough of them are gone', async () => (await closed(service, 'unread')) >= 2);
    assert.ok(service.connections() >= 1, 'and no more than that');
  });
});

describe('requests that come before the last is answered', () => {
  function slowDrops() {
    const waiting: (() => void)[] = [];
    const dropTable = () =>
      new Promise((_, reject) => {
        waiting.push(() => reject(new LancegateError('TableNotFound', 'script')));
      });
    return { waiting, script: { dropTable } as unknown as Partial<Operations> };
  }
  const asking = `${request('POST /v1/table/t/drop', 'content-length: 2')}{}`;

  test('are looked at one after the other, and answered in their order', async () => {
    const { waiting, script } = slowDrops();
    await using service = await start({ script });
    const peer = (await Peer.connect(service)).read().write(`${asking}${healthz}${asking}${healthz}`);
    await eventually('the first is under way', () => waiting.length === 1);
    await metric(service, 'lancegate_connections');
    assert.equal(waiting.length, 1);
    waiting[0]?.();
    await eventually('the third is under way', () => waiting.length === 2);
    waiting[1]?.();
    await eventually('all are answered', () => peer.answers.length === 4);
    assert.deepEqual(peer.answers, ['404', '200', '404', '200']);
  });

  test('are not answered for one another: one that asks for a tunnel ends the connection without a word (P6)', async () => {
    const { waiting, script } = slowDrops();
    await using service = await start({ script });
    const peer = (await Peer.connect(service)).read().write(`${asking}CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\n`);
    await eventually('it is closed', () => peer.isClosed || peer.socket.readableEnded);
    assert.equal(peer.received, '');
    waiting[0]?.();
  });

  test('end the connection where they are many: neither they nor their answers are memory (P7)', async () => {
    const { waiting, script } = slowDrops();
    await using service = await start({ script });
    const peer = (await Peer.connect(service)).read().write(asking + healthz.repeat(16));
    await eventually('the first is under way', () => waiting.length === 1);
    await metric(service, 'lancegate_connections');
    assert.equal(peer.isClosed, false);
    peer.write(healthz);
    await eventually('it is closed', () => peer.isClosed || peer.socket.readableEnded);
    assert.deepEqual(peer.answers, []);
    assert.equal(await closed(service, 'pipelined'), 1);
  });

  test('are not answered for one another: what is no HTTP ends the connection without a word (P6)', async () => {
    const { waiting, script } = slowDrops();
    await using service = await start({ script });
    const peer = (await Peer.connect(service)).read().write(`${asking}NONSENSE\r\n\r\n`);
    await eventually('it is closed', () => peer.isClosed || peer.socket.readableEnded);
    assert.equal(peer.received, '');
    waiting[0]?.();
  });
});

describe('one address', () => {
  const config = { maxConnections: 20, addressShare: 0.5 };

  test('has no more than its share of the connections, and others are served (P10)', async () => {
    await using service = await start({ config });
    const crowd = await Promise.all(Array.from({ length: 30 }, () => Peer.connect(service, '127.0.0.2')));
    for (const peer of crowd) peer.read();
    await eventually('the others are closed', () => crowd.filter(({ socket }) => socket.readableEnded).length === 20);
    assert.equal(await closed(service, 'address_share'), 20);
    const other = (await Peer.connect(service, '127.0.0.3')).read().write(healthz);
    await eventually('the other is served', () => other.answers[0] === '200');
    crowd.find(({ socket }) => !socket.readableEnded)?.socket.destroy();
    await eventually('one has gone', () => service.connections() === 10);
    const next = (await Peer.connect(service, '127.0.0.2')).read().write(healthz);
    await eventually('the next of the same is served', () => next.answers[0] === '200');
  });

  test('is named in one line of the log, not in one for each connection', async () => {
    const clock = new ManualClock();
    clock.advance(1_000_000);
    await using service = await start({ config, clock });
    const connectMany = async (count: number) => {
      const crowd = await Promise.all(Array.from({ length: count }, () => Peer.connect(service, '127.0.0.2')));
      for (const peer of crowd) peer.read();
      return crowd;
    };
    const crowd = await connectMany(30);
    await eventually('the others are closed', () => crowd.filter(({ socket }) => socket.readableEnded).length === 20);
    const lines = () =>
      service.log
        .filter(({ message }) => /^connections were closed/.test(String(message)))
        .map(({ reason, count, address }) => ({ reason, count, address }));
    const line = { reason: 'address_share', address: '127.0.0.2' };
    assert.deepEqual(lines(), [{ ...line, count: 1 }]);
    clock.advance(10_000);
    assert.deepEqual(lines(), [
      { ...line, count: 1 },
      { ...line, count: 19 },
    ]);
  });

  test('that is a trusted proxy has as many connections as there are, and each client its share of the requests', async () => {
    const waiting: (() => void)[] = [];
    const dropTable = () => new Promise((resolve) => waiting.push(() => resolve(dropped())));
    await using service = await start({
      config: { ...config, trustedProxies: ['127.0.0.2'] },
      script: { dropTable } as unknown as Partial<Operations>,
    });
    const asking = (client: string) =>
      `${request('POST /v1/table/t/drop', 'content-length: 2', `x-forwarded-for: ${client}`)}{}`;
    const peers = await Promise.all(Array.from({ length: 14 }, () => Peer.connect(service, '127.0.0.2')));
    for (const peer of peers) peer.read().write(asking('198.51.100.7'));
    await eventually('ten are under way', () => waiting.length === 10);
    await eventually('four are refused', () => peers.filter(({ answers }) => answers[0] === '503').length === 4);
    const refused = peers.filter(({ answers }) => answers[0] === '503');
    refused[0]?.write(asking('198.51.100.8'));
    await eventually('another client is served', () => waiting.length === 11);
    for (const answer of waiting) answer();
    await eventually('all are answered', () => peers.every(({ answers }) => answers.length > 0));
    refused[1]?.write(asking('198.51.100.7'));
    await eventually('there is room for the first client again', () => waiting.length === 12);
    waiting[11]?.();
  });
});

describe('where all connections are taken', () => {
  test('the one that has said nothing for longest gives way, then the one that is idle for longest (P12)', async () => {
    const clock = new ManualClock();
    await using service = await start({ clock, config: { maxConnections: 3 } });
    const idle = (await Peer.connect(service)).read().write(healthz);
    await eventually('it is idle', () => idle.answers.length === 1);
    const silent = (await Peer.connect(service)).read();
    const fresh = (await Peer.connect(service)).read();
    const early = (await Peer.connect(service)).read();
    await eventually('no connection gives way at once', () => early.socket.readableEnded);
    clock.advance(1_000);
    const next = (await Peer.connect(service)).read().write(healthz);
    await eventually('the next is served', () => next.answers[0] === '200');
    assert.deepEqual(
      [silent, fresh, idle].map(({ socket }) => socket.readableEnded),
      [true, false, false],
    );
    const after = (await Peer.connect(service)).read().write(healthz);
    await eventually('the one after is served', () => after.answers[0] === '200');
    const last = (await Peer.connect(service)).read().write(healthz);
    await eventually('the last is served', () => last.answers[0] === '200');
    assert.deepEqual(
      [fresh, idle].map(({ socket }) => socket.readableEnded),
      [true, true],
    );
  });

  const lingering: Readonly<Record<string, string>> = {
    'that was refused and does not send its body':
      'POST /v1/table/t/create HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n',
    'that was refused and does not end its body':
      'POST /v1/table/t/create HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n',
  };
  for (const [which, text] of Object.entries(lingering)) {
    test(`one gives way ${which}, before an idle one: it needs no credential (P12)`, async () => {
      const clock = new ManualClock();
      await using service = await start({ clock, config: { maxConnections: 3 } });
      const idle = (await Peer.connect(service)).read().write(healthz);
      await eventually('it is idle', () => idle.answers.length === 1);
      const refused = await Promise.all(Array.from({ length: 2 }, () => Peer.connect(service)));
      for (const peer of refused) peer.read().write(text);
      await eventually('they are refused', () => refused.every(({ answers }) => answers[0] === '401'));
      clock.advance(500);
      clock.advance(1_000);
      const next = (await Peer.connect(service)).read().write(healthz);
      await eventually('the next is served', () => next.answers[0] === '200');
      assert.equal(idle.socket.readableEnded, false);
      next.socket.destroy();
      assert.equal(await closed(service, 'gave_way'), 2);
    });
  }

  test('the longest of many long heads that do not arrive end, and one that arrives is answered (P7)', async () => {
    const clock = new ManualClock();
    await using service = await start({ clock, config: { maxConnections: 10 } });
    const peers = await Promise.all(Array.from({ length: 6 }, () => Peer.connect(service)));
    const head = (at: number) => `GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: ${'x'.repeat(78_000 + at)}`;
    for (const [at, peer] of peers.entries()) peer.read().write(head(at));
    await eventually('the longest end', () => {
      clock.advance(5);
      return peers.filter(({ socket }) => socket.readableEnded || socket.destroyed).length === 2;
    });
    assert.equal(await closed(service, 'long_heads'), 2);
    const shortest = peers[0]!.write('\r\n\r\n');
    await eventually('it is answered', () => shortest.answers[0] === '200');
  });

  test('none gives way that has a request under way', async () => {
    const clock = new ManualClock();
    let asked = 0;
    const dropTable = () => {
      asked += 1;
      return new Promise(() => undefined);
    };
    const script = { dropTable } as unknown as Partial<Operations>;
    await using service = await start({ clock, script, config: { maxConnections: 2 } });
    for (const count of [1, 2]) {
      const peer = (await Peer.connect(service)).read();
      peer.write(`${request('POST /v1/table/t/drop', 'content-length: 2')}{}`);
      await eventually('it is under way', () => asked === count);
    }
    clock.advance(5_000);
    const late = (await Peer.connect(service)).read().write(healthz);
    await eventually('it is closed', () => late.isClosed || late.socket.readableEnded);
    assert.deepEqual(late.answers, []);
  });
});

describe('a stop', () => {
  test('takes as long as the requests under way, whatever else is connected', async () => {
    let finish = (): void => {};
    const dropTable = () => new Promise((resolve) => (finish = () => resolve(dropped())));
    const script = { dropTable } as unknown as Partial<Operations>;
    const service = await start({ script });
    const others = [
      '',
      'GET /healthz HTTP/1.1\r\nhost',
      healthz,
      `${healthz}GET /he`,
      'NONSENSE\r\n\r\n',
      'POST /v1/table/t/create HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n',
    ];
    for (const text of others) (await Peer.connect(service)).write(text).socket.pause();
    const peer = (await Peer.connect(service)).read();
    peer.write(`${request('POST /v1/table/t/drop', 'content-length: 2')}{}`);
    await eventually('it is under way', () => service.asked.length === 1);
    let isStopped = false;
    const stopping = service.close(60_000).then(() => {
      isStopped = true;
    });
    const startMs = performance.now();
    await eventually('some time has passed', () => performance.now() - startMs > 200);
    assert.equal(isStopped, false);
    finish();
    await stopping;
    assert.deepEqual(peer.answers, ['200']);
    assert.ok(performance.now() - startMs < 30_000, 'far from the minute that it has');
  });
});

describe('one principal', () => {
  test('has no more than its share of the connections for its requests, from however many addresses (P10)', async () => {
    await using service = await start({ config: { maxConnections: 8, principalShare: 0.5 } });
    const asking = request('POST /v1/table/t/describe', 'content-length: 100');
    const peers = await Promise.all(Array.from({ length: 5 }, (_, i) => Peer.connect(service, `127.0.0.${i + 2}`)));
    for (const peer of peers) peer.read().write(asking);
    await eventually('one is refused', () => peers.some(({ answers }) => answers[0] === '503'));
    const refused = peers.find(({ answers }) => answers[0] === '503');
    assert.match(refused?.received ?? '', /too many requests of this principal at the same time/);
    peers.find((peer) => peer !== refused)?.socket.destroy();
    const next = (await Peer.connect(service)).read();
    await eventually('there is room again', () => {
      if (next.answers.at(-1) === '503' || next.received === '') next.write(`${asking}${'{'.padEnd(100)}`);
      return next.answers.includes('400');
    });
  });
});

describe('the headers of a request', () => {
  const many = (count: number) =>
    request('GET /healthz', 'connection: close', ...Array.from({ length: count - 3 }, (_, i) => `x-${i}: y`));

  test('are 199 at the most: short ones take many times their size while the others do not come (P12)', async () => {
    await using service = await start();
    const few = (await Peer.connect(service)).read().write(many(199));
    await eventually('they are taken', () => few.answers[0] === '200');
    const tooMany = (await Peer.connect(service)).read().write(many(200));
    await eventually('they are refused', () => tooMany.answers[0] === '400');
    assert.match(tooMany.received, /there are 200 headers or more/);
  });
});

describe('the Host of a request (RFC 9112, 3.2)', () => {
  const hosts: Readonly<Record<string, string | undefined>> = {
    'host: a\r\nhost: b': 'there is more than one Host header',
    'host: a\r\nHost: a': 'there is more than one Host header',
    'host: a/b': 'the Host header is not a host and a port',
    'host: a b': 'the Host header is not a host and a port',
    'host: u@a': 'the Host header is not a host and a port',
    'host: a:b': 'the Host header is not a host and a port',
    'host: a, b': 'the Host header is not a host and a port',
    'host: [::1]:80': undefined,
    'host: tables.example:80': undefined,
    'host: 127.0.0.1': undefined,
    'host:': undefined,
  };
  for (const [lines, error] of Object.entries(hosts)) {
    test(`${JSON.stringify(lines)} is ${error === undefined ? 'taken' : `400: ${error}`}`, async () => {
      await using service = await start();
      const peer = (await Peer.connect(service)).read();
      peer.write(`GET /healthz HTTP/1.1\r\n${lines}\r\nconnection: close\r\n\r\n`);
      await eventually('it is answered', () => peer.socket.readableEnded);
      assert.deepEqual(peer.answers, [error === undefined ? '200' : '400']);
      if (error !== undefined) assert.ok(peer.received.includes(`"error":"${error}"`), peer.received);
    });
  }
});

describe('a request whose end is in doubt is 400 and the end of its connection: nothing is smuggled behind it', () => {
  const hidden = 'GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n';
  const chunks = `0\r\n\r\n${hidden}`;
  const doubtful: Readonly<Record<string, string>> = {
    'content-length: 0\r\ncontent-length: 5': hidden,
    'content-length: 0\r\ncontent-length: 0': hidden,
    'content-length: 0, 0': hidden,
    'content-length: +0': hidden,
    'content-length : 0': hidden,
    'content-length: 5\r\ntransfer-encoding: chunked': chunks,
    'transfer-encoding: chunked\r\ncontent-length: 5': chunks,
    'transfer-encoding: gzip, chunked\r\ncontent-length: 5': chunks,
    'transfer-encoding: identity': chunks,
    'transfer-encoding: chunked, identity': chunks,
    'transfer-encoding: chunked\r\ntransfer-encoding: identity': chunks,
    'transfer-encoding: xchunked': chunks,
    'transfer-encoding:\x0bchunked': chunks,
    'x: 1\r\n folded': hidden,
    'x: 1\n\ny: 2': hidden,
  };
  for (const [headers, rest] of Object.entries(doubtful)) {
    test(JSON.stringify(headers), async () => {
      await using service = await start();
      const peer = (await Peer.connect(service)).read();
      peer.write(`POST /healthz HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n${rest}`);
      await eventually('it is over', () => peer.socket.readableEnded || peer.isClosed);
      assert.deepEqual(peer.answers, ['400'], peer.received);
      assert.match(peer.received, /"error":"the request is not valid HTTP\/1\.1: [^"]+"/);
      assert.doesNotMatch(peer.received, /ready/);
    });
  }

  test('a target in absolute form is its path, and no other server’s', async () => {
    await using service = await start();
    const peer = (await Peer.connect(service)).read();
    peer.write('GET http://elsewhere.example/healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    await eventually('it is answered', () => peer.socket.readableEnded);
    assert.deepEqual(peer.answers, ['200']);
  });
});
