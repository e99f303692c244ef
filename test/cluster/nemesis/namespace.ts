/**
 * A network of its own for a replica, on which packets get lost without a word, as when a switch dies: no connection ends, and none
 * begins. A TCP proxy can do neither. It is a network namespace of Linux, made by `ip`; without that, or the right to it, tests do
 * with proxies alone.
 */
import { execFileSync, spawnSync } from 'node:child_process';

/** What a replica reaches, and is reached by, over wires of their own. */
const ways = ['store', 'catalog', 'peers', 'clients'] as const;
export type Way = (typeof ways)[number];

/** Nobody has it, so packets to it are lost. */
const nobody = '02:00:00:00:00:fe';
const lengthOfWire = 4;
const most = 256 / lengthOfWire / ways.length;

const prefix = `lg${process.pid.toString(36)}`;
/** The test process has 256 addresses to itself, so that several can run at once. */
const network = `10.${100 + (Math.floor(process.pid / 256) % 100)}.${process.pid % 256}`;

/** Why tests do without namespaces, if they do. */
export const withoutNamespaces: string | undefined = isPossible()
  ? undefined
  : 'this user cannot make network namespaces';

function isPossible(): boolean {
  const probe = `${prefix}-probe`;
  const made = spawnSync('ip', ['netns', 'add', probe]).status === 0;
  const isWired =
    made &&
    spawnSync('ip', ['link', 'add', `${prefix}p`, 'type', 'veth', 'peer', 'name', 'p', 'netns', probe]).status === 0;
  if (made) spawnSync('ip', ['netns', 'delete', probe]);
  return isWired;
}

interface Wire {
  /** The end of the test process. */
  readonly device: string;
  readonly host: string;
  /** The end of the replica, which calls its device by the name of the way. */
  readonly replica: string;
}

export class Namespace {
  readonly name: string;
  readonly #wires: ReadonlyMap<Way, Wire>;

  private constructor(number: number) {
    this.name = `${prefix}-${number}`;
    this.#wires = new Map(
      ways.map((way, index) => {
        const first = (number * ways.length + index) * lengthOfWire;
        const [host, replica] = [`${network}.${first + 1}`, `${network}.${first + 2}`];
        return [way, { device: `${prefix}${number}${way[0]}${way[1]}`, host, replica }];
      }),
    );
  }

  /** `number`: of those that there are at once. Removed by what is given to `after`. */
  static open(after: (clean: () => void) => void, number: number): Namespace {
    if (number >= most) throw new Error('so many namespaces have no addresses');
    const namespace = new Namespace(number);
    ip('netns', 'add', namespace.name);
    after(() => ip('netns', 'delete', namespace.name));
    namespace.#lay();
    return namespace;
  }

  /** Where the test process listens for the replica. */
  hostOf(way: Way): string {
    return this.#wire(way).host;
  }

  /** Where the replica listens. */
  replicaOf(way: Way): string {
    return this.#wire(way).replica;
  }

  /** From now on packets in both directions are lost, or none are. */
  setLosing(way: Way, isLosing: boolean): void {
    const { device, host, replica } = this.#wire(way);
    const change = (to: string, on: string): readonly string[] =>
      isLosing ? ['replace', to, 'lladdr', nobody, 'nud', 'permanent', 'dev', on] : ['del', to, 'dev', on];
    ip('neigh', ...change(replica, device));
    ip('-n', this.name, 'neigh', ...change(host, way));
  }

  #wire(way: Way): Wire {
    return this.#wires.get(way)!;
  }

  /** Other replicas are reached by what listens for them on this side. */
  #lay(): void {
    const inside = ['-n', this.name];
    ip(...inside, 'link', 'set', 'lo', 'up');
    for (const [way, { device, host, replica }] of this.#wires) {
      ip('link', 'add', device, 'type', 'veth', 'peer', 'name', way, 'netns', this.name);
      ip('address', 'add', `${host}/30`, 'dev', device);
      ip('link', 'set', device, 'up');
      ip(...inside, 'address', 'add', `${replica}/30`, 'dev', way);
      ip(...inside, 'link', 'set', way, 'up');
    }
    ip(...inside, 'route', 'add', `${network}.0/24`, 'via', this.hostOf('peers'));
  }
}

function ip(...args: readonly string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
