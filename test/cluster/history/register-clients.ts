/**
 * Clients of one table that write and read its registers as a seed draws it, and note what they asked for and were told. A register
 * is two rows, of the ids `2n` and `2n + 1`; rows without an id are only ever appended.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Int32, Table, tableFromIPC, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import type { Random } from '#test/model/random.ts';
import { outcomeOf, settle, type Target } from './attempts.ts';
import type { Change, History, Outcome, Read, Value, Write } from './operation.ts';

export interface Load {
  readonly target: Target;
  readonly table: string;
  readonly registers: number;
  /**
   * So many of the registers get most requests, a few registers each. Every other request is of a row of any registers, up to two
   * thirds of all: one request is then an operation on each of them, and each register is checked by itself. All, if left out.
   */
  readonly contended?: number;
  readonly clients: number;
  /** Of each client. */
  readonly operations: number;
  /** Each client has a generator of its own, so that what it does depends on its answers and its seed alone. */
  readonly randomOf: (client: number) => Random;
  /** Ends the clients early. */
  readonly isOver?: () => boolean;
}

const everyRow = { vector: [], k: 2 ** 31, prefilter: true, columns: ['id', 'value'] };

export const appendedRow = (value: string): Uint8Array => arrowOf([null], value);

export const emptyTable = (): Uint8Array => registerRows([], '');

const makeWithinMs = 60_000;

/** Sent again under its key while nothing was written: replicas that have just started may still agree on who owns what. */
export async function makeTable(target: Target, table: string): Promise<void> {
  const headers = { 'idempotency-key': randomUUID() };
  const endMs = performance.now() + makeWithinMs;
  for (;;) {
    const sent = await target.post(`/v1/table/${table}/create`, emptyTable(), headers);
    const outcome = outcomeOf(sent, 'version');
    if (outcome.kind === 'done') return;
    const answer = typeof sent === 'object' ? `${sent.status} ${sent.body}` : String(sent);
    const isOver = outcome.kind === 'surprise' || performance.now() > endMs;
    if (isOver) throw new Error(`${table} was not created: ${answer}`);
    await pause(100);
  }
}

export class RegisterClients {
  readonly #load: Load;
  readonly #writes: Write[] = [];
  readonly #reads: Read[] = [];
  readonly #appended: (readonly string[])[] = [];
  /** What was last seen of each register, so that a replacement often finds what it expects. */
  readonly #seen = new Map<number, Value>();
  readonly #surprises: string[] = [];
  #values = 0;
  #acknowledged = 0;

  constructor(load: Load) {
    this.#load = load;
  }

  get history(): History {
    return { writes: this.#writes, reads: this.#reads, appended: this.#appended };
  }

  /** How many writes were. */
  get acknowledged(): number {
    return this.#acknowledged;
  }

  /** Answers that no fault explains, such as a 400. */
  get surprises(): readonly string[] {
    return this.#surprises;
  }

  async run(): Promise<void> {
    const { clients } = this.#load;
    await Promise.all(Array.from({ length: clients }, (_, client) => this.#runOne(`client ${client}`, client)));
  }

  /** To be called when faults are over: reads all that is there, as part of the history. */
  async readAll(target: Target = this.#load.target): Promise<void> {
    const keys = range(0, this.#load.registers);
    for (let attempt = 0; !(await this.#read('last reader', keys, target)); attempt++) {
      if (attempt >= 100) throw new Error(`the table cannot be read: ${this.#surprises.at(-1)}`);
      await pause(100);
    }
    const rows = await this.#query('id is null', target);
    if (rows === undefined) throw new Error('the rows without an id cannot be read');
    this.#appended.push(rows.map(({ value }) => value));
  }

  async #runOne(name: string, client: number): Promise<void> {
    const { operations, isOver, randomOf, target } = this.#load;
    const random = randomOf(client);
    for (let left = operations; left > 0 && isOver?.() !== true; left--) {
      if (random.chance(35)) await this.#read(name, this.#keysOfOne(random, 6), target);
      else await this.#write(name, this.#randomChange(random), random);
    }
  }

  /** In ascending order, as a range in half of the cases where there are others than the contended registers. */
  #keysOfOne(random: Random, most: number): readonly number[] {
    const { registers, contended = registers } = this.#load;
    if (contended < registers && random.chance(50)) {
      const from = random.int(registers / 3);
      return range(from, from + 1 + random.int((2 * registers) / 3));
    }
    return random.sample(range(0, contended), 1 + random.int(most)).sort((a, b) => a - b);
  }

  #randomChange(random: Random): Change {
    const keys = this.#keysOfOne(random, random.pick([1, 1, 3]));
    const value = `v${++this.#values}`;
    const expected = this.#seen.get(keys[0] as number);
    const kind = random.weighted<Change['kind']>([
      [50, 'upsert'],
      [8, 'insert'],
      [14, 'replace'],
      [6, 'delete'],
      [22, 'append'],
    ]);
    switch (kind) {
      case 'append':
        return { kind, value };
      case 'delete':
        return { kind, keys };
      case 'replace':
        return expected === undefined ? { kind: 'upsert', keys, value } : { kind, keys, expected, value };
      default:
        return { kind, keys, value };
    }
  }

  async #write(client: string, change: Change, random: Random): Promise<void> {
    const headers: Record<string, string> = random.chance(50) ? { 'idempotency-key': randomUUID() } : {};
    const isKeyed = headers['idempotency-key'] !== undefined;
    const beganMs = performance.now();
    const outcome = await settle(() => this.#attempt(change, headers), isKeyed, random);
    this.#writes.push({ client, beganMs, endedMs: performance.now(), change, outcome });
    if (outcome.kind === 'done') this.#acknowledged += 1;
    if (outcome.kind === 'done' && 'value' in change && change.kind !== 'append') {
      for (const register of change.keys) this.#seen.set(register, change.value);
    }
  }

  async #attempt(change: Change, headers: Readonly<Record<string, string>>): Promise<Outcome> {
    const { path, body, countIn } = this.#requestFor(change);
    const outcome = outcomeOf(await this.#load.target.post(path, body, headers), countIn);
    if (outcome.kind !== 'surprise') return outcome;
    this.#surprises.push(`${path}: ${outcome.text}`);
    return { kind: 'unknown' };
  }

  #requestFor(change: Change): { path: string; body: Uint8Array | object; countIn: string } {
    const table = `/v1/table/${this.#load.table}`;
    const merge = `${table}/merge_insert?on=id`;
    switch (change.kind) {
      case 'upsert':
        return { path: merge, body: registerRows(change.keys, change.value), countIn: 'num_inserted_rows' };
      case 'insert': {
        const path = `${merge}&when_not_matched_insert_all=true`;
        return { path, body: registerRows(change.keys, change.value), countIn: 'num_inserted_rows' };
      }
      case 'replace': {
        const filter = encodeURIComponent(`target.value = '${change.expected}'`);
        const path = `${merge}&when_matched_update_all_filt=${filter}`;
        return { path, body: registerRows(change.keys, change.value), countIn: 'num_updated_rows' };
      }
      case 'delete': {
        const predicate = `id in (${idsOf(change.keys).join(', ')})`;
        return { path: `${table}/delete`, body: { predicate }, countIn: 'num_deleted_rows' };
      }
      case 'append':
        return { path: `${table}/insert`, body: appendedRow(change.value), countIn: 'num_inserted_rows' };
    }
  }

  /** Whether it was answered. */
  async #read(client: string, keys: readonly number[], target: Target): Promise<boolean> {
    const beganMs = performance.now();
    const found = await this.#query(`id in (${idsOf(keys).join(', ')})`, target);
    if (found === undefined) return false;
    const rows = found.map(({ id, value }) => ({ register: id >> 1, half: (id & 1) as 0 | 1, value }));
    this.#reads.push({ client, beganMs, endedMs: performance.now(), keys, rows });
    for (const register of keys) this.#seen.set(register, rows.find((row) => row.register === register)?.value);
    return true;
  }

  async #query(filter: string, target: Target): Promise<readonly StoredRow[] | undefined> {
    const sent = await target.post(`/v1/table/${this.#load.table}/query`, { ...everyRow, filter }, {});
    if (sent === undefined || sent === 'not sent') return undefined;
    if (sent.status === 200) {
      return [...tableFromIPC(sent.body)].map((row) => ({ id: Number(row.id), value: String(row.value) }));
    }
    if (sent.status !== 503 && sent.status !== 500) this.#surprises.push(`query: ${sent.status} ${sent.body}`);
    return undefined;
  }
}

interface StoredRow {
  readonly id: number;
  readonly value: string;
}

const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, index) => from + index);

const idsOf = (keys: readonly number[]): readonly number[] => keys.flatMap((key) => [2 * key, 2 * key + 1]);

export const registerRows = (keys: readonly number[], value: string): Uint8Array => arrowOf(idsOf(keys), value);

function arrowOf(ids: readonly (number | null)[], value: string): Uint8Array {
  const values = ids.map(() => value);
  const columns = { id: vectorFromArray(ids, new Int32()), value: vectorFromArray(values, new Utf8()) };
  return tableToIPC(new Table(columns), 'stream');
}
