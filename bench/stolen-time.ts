/**
 * How much of the processor time that this machine asked for the hypervisor gave to others: what makes a virtual machine
 * slow with nothing to see in it. A run in which it was a third says little of the service.
 */
import { readFileSync } from 'node:fs';
import type { Row } from './measure.ts';

/** In ticks, of all cores, since the machine began. */
interface Ticks {
  readonly used: number;
  readonly stolen: number;
}

/** Begins to count; what it returns ends it, with the part (0 to 1) of the time asked for. Undefined but on Linux. */
export function countStolenTime(): () => number | undefined {
  const before = readTicks();
  return () => {
    const after = readTicks();
    if (before === undefined || after === undefined) return undefined;
    const stolen = after.stolen - before.stolen;
    const wanted = after.used - before.used + stolen;
    return wanted === 0 ? 0 : stolen / wanted;
  };
}

/** proc_stat(5): `cpu user nice system idle iowait irq softirq steal …`. */
function readTicks(): Ticks | undefined {
  if (process.platform !== 'linux') return undefined;
  const [, ...numbers] = readFileSync('/proc/stat', 'latin1').split('\n', 1)[0]?.split(/ +/).map(Number) ?? [];
  const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, stolen = 0] = numbers;
  return { used: user + nice + system + irq + softIrq, stolen };
}

/** To be read before the rows above it. */
export const stolenRow = (lancegate: string, bareEngine = ''): Row => ({
  ...{ what: '- processor time that other machines took', lancegate, bareEngine, ratio: '', goal: '' },
});

export const shownPart = (part: number | undefined): string =>
  part === undefined ? 'unknown' : `${(100 * part).toFixed(0)} %`;
