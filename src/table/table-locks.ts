import type { BranchName, TableRef } from '../kernel/ids.ts';
import { Turns } from '../kernel/turns.ts';

export type Release = () => void;

interface Gate {
  /** Writers of branches share it; what changes the table as a whole (drop, publish, branches) holds it alone. */
  readonly table: Turns;
  readonly branches: Map<string, Turns>;
}

/**
 * The gate every write of a table passes (P2, P5): the writers of one branch take turns, writers of different branches do
 * not wait for each other, and whoever replaces or removes the table waits for all of them and keeps new ones out.
 *
 * Turns belong to the table's name, not to its files: a merge that waited while the table was replaced finds the new one.
 * It orders the writers of this process only; an embedded data folder has one process (the catalog's lock sees to it).
 */
export class TableGates {
  readonly #gates = new Map<string, Gate>();
  readonly #maxWaitingPerTable: number;

  constructor(maxWaitingPerTable: number) {
    this.#maxWaitingPerTable = maxWaitingPerTable;
  }

  /**
   * Lets a writer in that will wait for its branch's turn: whoever wants the table alone waits for it from now on.
   * `SlowDown` when too many wait already; the signal's reason when it aborts first.
   */
  async enterShared(table: TableRef, signal: AbortSignal): Promise<Release> {
    const key = keyOf(table);
    const gate = this.#gate(key);
    const leave = await gate.table.take('shared', signal);
    return () => {
      leave();
      this.#forgetIdle(key, gate);
    };
  }

  /** The turn at a branch, for one who holds the table shared. */
  async takeBranch(table: TableRef, branch: BranchName | undefined, signal: AbortSignal): Promise<Release> {
    const gate = this.#gate(keyOf(table));
    const turns = this.#branchTurns(gate, branch ?? '');
    const leave = await turns.take('alone', signal);
    return () => {
      leave();
      if (turns.isIdle && gate.branches.get(branch ?? '') === turns) gate.branches.delete(branch ?? '');
    };
  }

  /** Both, for one who writes to a branch and waits in no queue of its own. */
  async enterBranch(table: TableRef, branch: BranchName | undefined, signal: AbortSignal): Promise<Release> {
    const leaveTable = await this.enterShared(table, signal);
    try {
      const leaveBranch = await this.takeBranch(table, branch, signal);
      return () => {
        leaveBranch();
        leaveTable();
      };
    } catch (error) {
      leaveTable();
      throw error;
    }
  }

  /** How many wait to have a table alone, over all tables. */
  get waitingAlone(): number {
    return [...this.#gates.values()].reduce((sum, { table }) => sum + table.waitingAlone, 0);
  }

  async enterAlone(table: TableRef, signal: AbortSignal): Promise<Release> {
    const key = keyOf(table);
    const gate = this.#gate(key);
    const leave = await gate.table.take('alone', signal);
    return () => {
      leave();
      this.#forgetIdle(key, gate);
    };
  }

  #gate(key: string): Gate {
    const known = this.#gates.get(key);
    if (known !== undefined) return known;
    const gate = { table: new Turns(this.#maxWaitingPerTable), branches: new Map<string, Turns>() };
    this.#gates.set(key, gate);
    return gate;
  }

  #branchTurns(gate: Gate, branch: string): Turns {
    const known = gate.branches.get(branch);
    if (known !== undefined) return known;
    const turns = new Turns(this.#maxWaitingPerTable);
    gate.branches.set(branch, turns);
    return turns;
  }

  /** Gates are made on demand and forgotten when nobody is at them, so their number is that of busy tables (P7). */
  #forgetIdle(key: string, gate: Gate): void {
    if (gate.table.isIdle && this.#gates.get(key) === gate) this.#gates.delete(key);
  }
}

const keyOf = (table: TableRef): string => JSON.stringify([...table.namespace, table.name]);
