import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/**
 * Since when the machine runs. As long as it does, no write of a process is lost; when it goes down, all that was not synced may
 * be lost.
 */
export interface MachineStart {
  /** Differs after every start of the machine, and from machine to machine. */
  readonly id: string;
  readonly atMs: number;
}

/** If the machine cannot name its start, each process counts as a start: recovery then checks files more closely. */
export function readMachineStart(nowMs: number): MachineStart {
  return { id: bootId() ?? randomUUID(), atMs: nowMs - uptime() * 1000 };
}

/** Linux only (proc_sys_kernel(5)). */
function bootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return undefined;
  }
}
