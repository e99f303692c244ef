/** Clients that create tables, each of a name of its own, and what must be there of them afterwards. */
import { randomUUID } from 'node:crypto';
import { Int32, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import type { Random } from '#test/model/random.ts';
import { outcomeOf, settle, type Target } from './attempts.ts';
import type { Outcome } from './operation.ts';

interface Creation {
  readonly table: string;
  readonly rows: number;
  readonly outcome: Outcome;
}

/** Enough for several files where chunks are small. */
const maxRows = 20_000;

export class TableMakers {
  readonly #target: Target;
  readonly #creations: Creation[] = [];
  readonly #surprises: string[] = [];

  constructor(target: Target) {
    this.#target = target;
  }

  get outcomes(): readonly Outcome[] {
    return this.#creations.map(({ outcome }) => outcome);
  }

  /** One after the other. */
  async run(prefix: string, tables: number, random: Random): Promise<void> {
    for (let index = 0; index < tables; index++) await this.#create(`${prefix}_${index}`, random);
  }

  async #create(table: string, random: Random): Promise<void> {
    const rows = 1 + random.int(random.pick([10, maxRows]));
    const ids = Array.from({ length: rows }, (_, id) => id);
    const body = tableToIPC(new Table({ id: vectorFromArray(ids, new Int32()) }), 'stream');
    const headers: Record<string, string> = random.chance(60) ? { 'idempotency-key': randomUUID() } : {};
    const attempt = async (): Promise<Outcome> => {
      const sent = await this.#target.post(`/v1/table/${table}/create`, body, headers);
      const outcome = outcomeOf(sent, 'version');
      if (outcome.kind !== 'surprise') return outcome;
      this.#surprises.push(`create of ${table}: ${outcome.text}`);
      return { kind: 'unknown' };
    };
    const outcome = await settle(attempt, headers['idempotency-key'] !== undefined, random);
    this.#creations.push({ table, rows, outcome });
  }

  /** To be called when faults are over. */
  async violations(target: Target): Promise<readonly string[]> {
    const found = await Promise.all(this.#creations.map((creation) => this.#violationsOf(creation, target)));
    return [...this.#surprises, ...found.flat()];
  }

  async #violationsOf({ table, rows, outcome }: Creation, target: Target): Promise<readonly string[]> {
    const sent = await target.post(`/v1/table/${table}/count_rows`, {}, {});
    const found = sent === undefined || sent === 'not sent' ? undefined : sent;
    const isThere = found?.status === 200 && Number(found.body.toString()) === rows;
    const isMissing = found?.status === 404;
    if (isThere && outcome.kind !== 'nothing written') return [];
    if (isMissing && outcome.kind !== 'done') return [];
    return [
      `the create of ${table} with ${rows} rows was ${outcome.kind}, and there is ${found?.status} ${found?.body}`,
    ];
  }
}
