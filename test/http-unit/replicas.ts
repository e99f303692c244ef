import { ReplicaTokens } from '#src/auth/tokens/replica-tokens.ts';
import { Forwarding } from '#src/http/forwarding/forwarding.ts';
import { ReplicaHop } from '#src/http/forwarding/replica-hop.ts';
import { systemClock } from '#src/kernel/clock.ts';
import type { ReplicaAddress } from '#src/table/table-owners.ts';
import { startTestService, type TestOptions, type TestService } from './service.ts';
import { silentLogger } from './silent-logger.ts';
import { until } from './until.ts';

type Owner = Awaited<ReturnType<ConstructorParameters<typeof Forwarding>[0]['owners']['ownerOf']>>;

const self: Owner = { kind: 'self' };

/** Two replicas that share their keys; `owner` is who each of them takes for the owner of every table. */
export class Replicas implements AsyncDisposable {
  #keys: string | undefined;
  readonly #opened = new AsyncDisposableStack();
  owner: Record<string, Owner> = {};
  /** Which replicas have asked who the owner of a table is: that may claim the name. */
  readonly askedForOwner: string[] = [];
  readonly addresses: Record<string, ReplicaAddress> = {};

  async start(id: string, options: TestOptions = {}): Promise<TestService> {
    const { clock = systemClock } = options;
    const tokens = this.tokens(id);
    const hop = new ReplicaHop({
      sign: (principal, audience) => tokens.sign(principal, audience),
      clock,
      logger: silentLogger,
    });
    const owners = {
      ownerOf: async () => {
        this.askedForOwner.push(id);
        return this.owner[id] ?? self;
      },
    };
    const others = () => Object.values(this.addresses).filter((replica) => replica.id !== id);
    const forwarding = new Forwarding({ owners, others, hop, clock });
    const service = await startTestService({ ...options, replicaTokens: tokens, forwarding });
    this.#opened.use(service);
    this.addresses[id] = { id, address: service.url };
    this.#opened.defer(() => hop.close());
    return service;
  }

  tokens(replica: string): ReplicaTokens {
    let ids = 0;
    const keys = {
      read: async () => this.#keys,
      create: async (document: string) => {
        this.#keys ??= document;
      },
      replace: async (next: (document: string) => Promise<string>) => {
        this.#keys = await next(this.#keys!);
      },
    };
    return new ReplicaTokens({ keys, replica, clock: systemClock, newId: () => `${replica}-key-${++ids}` });
  }

  owns(id: string, service: { readonly url: string }, ...others: readonly string[]): void {
    for (const other of others) this.owner[other] = { kind: 'replica', id, address: service.url };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

export async function twoReplicas(options: TestOptions = {}) {
  const replicas = new Replicas();
  const [first, second] = [await replicas.start('first'), await replicas.start('second', options)];
  replicas.owns('second', second, 'first');
  return { replicas, first, second };
}

/** The audit record of the first request, which is written once the connection is done with it. */
export async function recordOf({ log }: TestService): Promise<Record<string, unknown>> {
  await until(() => log.some(({ message }) => message === 'request'));
  return log.find(({ message }) => message === 'request')!;
}
