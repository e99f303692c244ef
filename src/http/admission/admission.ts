/**
 * Admits a request with a body, once, when its headers have arrived and before its body is read (P7). A request that is refused
 * here has cost its headers and nothing else.
 *
 * The principal and the table can each have a share of every quota, so that others find capacity (P10). JSON bodies have a quota
 * of their own, which writes do not fill. Each request occupies a connection, so a principal has a share of the connections, too,
 * from however many addresses it comes.
 */
import { bytesAround, firstBufferBytes } from '../../arrow/stream/source-reader.ts';
import type { BodyKind } from '../../endpoint/route.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { type Principal, principalKey } from '../../kernel/request-scope.ts';
import { type BodyAccount, type BodyMemory, bufferBytesFor, type Holder, Quota } from '../../memory/body-memory.ts';
import { maxQueuedBytes } from '../body/request-body.ts';
import type { HttpConfig } from '../http-deps.ts';

interface AdmissionRequest {
  readonly principal: Principal;
  /** Where an Arrow body goes. */
  readonly table: TableRef | undefined;
  readonly body: BodyKind;
  /** Of the body as its reader will see it; undefined where the client did not say. */
  readonly declaredBytes: number | undefined;
  /** What a decoder of the body takes in addition. */
  readonly decoderBytes: number;
}

/** What an admitted request holds. Both methods may be called more than once. */
export interface Permit {
  readonly account: BodyAccount;
  /** The body was read, or will not be read. */
  endReceiving(): void;
  /** The answer is decided. Buffers still in use stay counted until they are returned. */
  release(): void;
}

/** Requests with the largest JSON body that may be under way together; of common ones, hundreds of times as many. */
const largestJsonBodies = 64;
const leastJsonBytes = 4 * 2 ** 10;

export class Admission {
  readonly #config: HttpConfig;
  readonly #memory: BodyMemory;
  readonly #requests: Quota;
  readonly #writes: Quota;
  readonly #json: Quota;

  constructor(config: HttpConfig, memory: BodyMemory) {
    this.#config = config;
    this.#memory = memory;
    this.#requests = new Quota(config.maxConnections, 'requests');
    this.#writes = new Quota(config.maxConcurrentWrites, 'writes');
    this.#json = new Quota(largestJsonBodies * config.maxJsonBytes, 'bytes in JSON bodies');
  }

  /** `SlowDown` without capacity now, `BodyTooLarge` where there never will be enough. */
  admit(request: AdmissionRequest): Permit {
    const sender = this.#sender(request.principal);
    const holders = request.table === undefined ? [sender] : [sender, this.#target(request.table)];
    this.#requests.requireRoom(1, [sender]);
    const permit = request.body === 'json' ? this.#admitJson(request, holders) : this.#admitWrite(request, holders);
    this.#requests.take(1, [sender]);
    const giveBack = once(() => this.#requests.giveBack(1, [sender]));
    return {
      ...permit,
      release: () => {
        permit.release();
        giveBack();
      },
    };
  }

  /** `SlowDown` where a write of any principal to any table would be refused. Reserves nothing. */
  requireCapacity(): void {
    this.#memory.requireResidentRoom();
    this.#writes.requireRoom(1, []);
  }

  /** Counts a write of this principal that waits to be admitted, until the returned function is called. `SlowDown`. */
  reserveWrite(principal: Principal | undefined): () => void {
    const owners = principal === undefined ? [] : [this.#sender(principal)];
    this.#memory.requireResidentRoom();
    this.#writes.take(1, owners);
    return once(() => this.#writes.giveBack(1, owners));
  }

  #admitJson({ declaredBytes }: AdmissionRequest, holders: readonly Holder[]): Permit {
    const bytes = Math.max(declaredBytes ?? this.#config.maxJsonBytes, leastJsonBytes);
    this.#json.take(bytes, holders);
    return {
      account: this.#memory.open(holders),
      endReceiving: () => undefined,
      release: once(() => this.#json.giveBack(bytes, holders)),
    };
  }

  #admitWrite({ body, declaredBytes, decoderBytes }: AdmissionRequest, holders: readonly Holder[]): Permit {
    const account = this.#memory.open(holders);
    const receiving = this.#memory.open(holders);
    if (body === 'arrow-whole') account.requireRoom(bufferBytesFor((declaredBytes ?? 0) + bytesAround));
    this.#memory.requireResidentRoom();
    this.#writes.take(1, holders);
    const endReceiving = once(() => receiving.release());
    const release = once(() => {
      endReceiving();
      account.release();
      this.#writes.giveBack(1, holders);
    });
    try {
      receiving.promise(decoderBytes + Math.min(declaredBytes ?? maxQueuedBytes, maxQueuedBytes));
      account.promise(firstBufferBytes(declaredBytes));
    } catch (error) {
      release();
      throw error;
    }
    return { account, endReceiving, release };
  }

  #sender(principal: Principal): Holder {
    return { kind: 'principal', name: `principal ${principalKey(principal)}`, share: this.#config.principalShare };
  }

  #target({ namespace, name }: TableRef): Holder {
    return { kind: 'table', name: JSON.stringify(['table', ...namespace, name]), share: this.#config.tableShare };
  }
}

function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}
