/** Clients of single members of a cluster, for tests that say which replica is asked, and how often. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { isCommit } from '#test/fixtures/store-proxy.ts';
import { outcomeOf, type Reply, type Sent, type Target } from '../history/attempts.ts';
import { HttpTarget } from '../history/http-target.ts';
import { appendedRow, emptyTable } from '../history/register-clients.ts';
import type { Cluster, Member } from './cluster.ts';

const patienceMs = 60_000;
/** Of one request to a replica, which may send it on to the owner that stands still. */
const requestTimeoutMs = 5_000;

/** Of a write that was sent only once, and is waited for as long as it takes. */
export const outcomeOfWrite = (sent: Sent) => outcomeOf(sent, 'num_inserted_rows').kind;

export function replyOf(sent: Sent): Reply {
  assert.ok(sent !== undefined && sent !== 'not sent', 'there is an answer');
  return sent;
}

const pathOf = (table: string): string => `/v1/table/${table}/insert`;

export class MemberClients {
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** A new table, with the member that owns it and one that does not. */
  async newTable(
    table: string,
    by: Member = this.#cluster.members[0]!,
  ): Promise<readonly [owner: Member, other: Member]> {
    const { members } = this.#cluster;
    await this.#untilDone(by, `/v1/table/${table}/create`, emptyTable(), randomUUID());
    for (const { toStore } of members) toStore?.reset();
    await this.untilAppended(by, table, 'of the search');
    const owner = members.find(({ toStore }) => (toStore?.counts.get('PUT manifest') ?? 0) > 0)!;
    return [owner, members.find((each) => each !== owner)!];
  }

  /**
   * Until each of two members gives tables to the other: a replica that has just started does not know of all others, and what it
   * claims meanwhile moves later.
   */
  async untilAcquainted(): Promise<void> {
    for (const member of this.#cluster.members) {
      for (let count = 0; ; count++) {
        const [owner] = await this.newTable(`by_${this.#cluster.members.indexOf(member)}_${count}`, member);
        if (owner !== member) break;
      }
    }
  }

  /** Once. */
  append(member: Member, table: string, value: string, headers: Readonly<Record<string, string>>): Promise<Sent> {
    return this.#targetOf(member, patienceMs).post(pathOf(table), appendedRow(value), headers);
  }

  async untilAppended(member: Member, table: string, value: string, key: string = randomUUID()) {
    const { body } = await this.#untilDone(member, pathOf(table), appendedRow(value), key);
    return JSON.parse(body.toString()) as { readonly version: number; readonly transaction_id: string };
  }

  /** Once: any other request. */
  send(member: Member, path: string, body: object): Promise<Sent> {
    return this.#targetOf(member, patienceMs).post(path, body, {});
  }

  /** Until it is done, or nobody will ever know whether it is. */
  async untilAnswered(member: Member, table: string, value: string, key: string): Promise<void> {
    await this.#until(member, pathOf(table), appendedRow(value), key, (sent) => {
      const outcome = outcomeOfWrite(sent);
      return outcome === 'done' || (outcome === 'unknown' && sent !== undefined);
    });
  }

  /** The rows with the value, as the member sees them. */
  async count(member: Member, table: string, value: string): Promise<number> {
    const predicate = `value = '${value}'`;
    const sent = await this.#targetOf(member).post(`/v1/table/${table}/count_rows`, { predicate }, {});
    return Number(replyOf(sent).body.toString());
  }

  /** The next commit of the member arrives at the store when `until` is over; resolves when the member has sent it. */
  async lateCommit(member: Member, until: Promise<unknown>): Promise<void> {
    const sent = Promise.withResolvers<void>();
    member.toStore!.faults = (request) => {
      if (isCommit(request)) sent.resolve();
      return isCommit(request) ? { kind: 'late', until } : undefined;
    };
    await sent.promise;
  }

  /** From now on every request of the members arrives at the store, and is answered. */
  healStores(): void {
    for (const { toStore } of this.#cluster.members) toStore!.faults = () => undefined;
  }

  async #untilDone(member: Member, path: string, body: Uint8Array, key: string): Promise<Reply> {
    return replyOf(
      await this.#until(member, path, body, key, (sent) => typeof sent === 'object' && sent.status === 200),
    );
  }

  async #until(
    member: Member,
    path: string,
    body: Uint8Array,
    key: string,
    isEnough: (sent: Sent) => boolean,
  ): Promise<Sent> {
    const endMs = performance.now() + patienceMs;
    for (;;) {
      const sent = await this.#targetOf(member).post(path, body, { 'idempotency-key': key });
      if (isEnough(sent)) return sent;
      assert.ok(performance.now() < endMs, `${member.replica.name} does not write: ${JSON.stringify(sent)}`);
      await pause(200);
    }
  }

  #targetOf({ replica }: Member, timeoutMs = requestTimeoutMs): Target {
    return new HttpTarget([replica.url], this.#cluster.authorization, timeoutMs);
  }
}
