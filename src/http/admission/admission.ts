/**
 * Whether there is room for a request with a body, asked when its headers are there and before its body is read (P7). A
 * request that is turned away here has cost its headers and nothing else.
 *
 * Who sends it and the table it goes to can each have a part of everything, so that the others find room (P10). Requests
 * about names have a budget of their own: writes that fill theirs do not keep them out. Each request holds a connection, so a
 * principal has a part of those, too, from however many addresses it comes.
 */

import { bytesAround, firstBufferBytes } from '../../arrow/stream/source-reader.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { type Principal, principalKey } from '../../kernel/principal.ts';
import { type BodyAccount, type BodyMemory, bufferBytesFor } from '../../memory/body-memory.ts';
import { type Holder, Quota } from '../../memory/quota.ts';
import type { HttpConfig } from '../http-config.ts';
import type { BodyKind } from '../route.ts';

export interface Applicant {
  readonly principal: Principal;
  /** Where an Arrow body goes. */
  readonly table: TableRef | undefined;
  readonly body: BodyKind;
  /** Of the body as its reader will see it; undefined where the client did not say. */
  readonly declaredBytes: number | undefined;
  /** What decoding the body takes beside it. */
  readonly decoderBytes: number;
}

/** The room one request was given. Both methods may be called more than once. */
export interface Entry {
  readonly account: BodyAccount;
  /** The body was read, or nobody will read it. */
  endReceiving(): void;
  /** The answer is decided. Buffers still in use stay counted until they are given back. */
  leave(): void;
}

/** What may lie between the network and the reader of a body. */
const readAheadBytes = 256 * 2 ** 10;
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

  /** `SlowDown` where there is no room now, `BodyTooLarge` where there never will be. */
  enter(applicant: Applicant): Entry {
    const holders = this.#holders(applicant);
    const senders = [this.#sender(applicant)];
    this.#requests.requireRoom(1, senders);
    const entry =
      applicant.body === 'json' ? this.#enterJson(applicant, holders) : this.#enterWrite(applicant, holders);
    this.#requests.take(1, senders);
    const giveBack = once(() => this.#requests.giveBack(1, senders));
    return {
      ...entry,
      leave: () => {
        entry.leave();
        giveBack();
      },
    };
  }

  /** `SlowDown` where nobody's write would be let in, whoever sends it and wherever it goes. Takes nothing. */
  requireRoomForAnybody(): void {
    this.#memory.requireResidentRoom();
    this.#writes.requireRoom(1, []);
  }

  #enterJson({ declaredBytes }: Applicant, holders: readonly Holder[]): Entry {
    const bytes = Math.max(declaredBytes ?? this.#config.maxJsonBytes, leastJsonBytes);
    this.#json.take(bytes, holders);
    return {
      account: this.#memory.open(holders),
      endReceiving: () => undefined,
      leave: once(() => this.#json.giveBack(bytes, holders)),
    };
  }

  #enterWrite({ body, declaredBytes, decoderBytes }: Applicant, holders: readonly Holder[]): Entry {
    const account = this.#memory.open(holders);
    const receiving = this.#memory.open(holders);
    if (body === 'arrow-whole') account.requireRoom(bufferBytesFor((declaredBytes ?? 0) + bytesAround));
    this.#memory.requireResidentRoom();
    this.#writes.take(1, holders);
    const endReceiving = once(() => receiving.release());
    const leave = once(() => {
      endReceiving();
      account.release();
      this.#writes.giveBack(1, holders);
    });
    try {
      receiving.promise(decoderBytes + Math.min(declaredBytes ?? readAheadBytes, readAheadBytes));
      account.promise(firstBufferBytes(declaredBytes));
    } catch (error) {
      leave();
      throw error;
    }
    return { account, endReceiving, leave };
  }

  #holders(applicant: Applicant): readonly Holder[] {
    const { table } = applicant;
    const sender = this.#sender(applicant);
    if (table === undefined) return [sender];
    const target = JSON.stringify(['table', ...table.namespace, table.name]);
    return [sender, { kind: 'table', name: target, share: this.#config.tableShare }];
  }

  #sender({ principal }: Applicant): Holder {
    return { kind: 'principal', name: `principal ${principalKey(principal)}`, share: this.#config.principalShare };
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
