/** A part of the machine's processors for one process, as if it had a smaller machine of its own. Needs Linux and root. */
import { existsSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Short, so that a process that has used its part stands still for moments and not for a tenth of a second. */
const periodUs = 10_000;

/** For control groups of version 2, and for those of version 1. */
const hierarchies = [
  {
    root: '/sys/fs/cgroup',
    isThere: '/sys/fs/cgroup/cpu.stat',
    limits: (us: number) => ({ 'cpu.max': `${us} ${periodUs}` }),
  },
  {
    root: '/sys/fs/cgroup/cpu',
    isThere: '/sys/fs/cgroup/cpu/cpu.cfs_quota_us',
    limits: (us: number) => ({ 'cpu.cfs_period_us': String(periodUs), 'cpu.cfs_quota_us': String(us) }),
  },
];

/** `processors`: how many the process and its later children may keep busy. Once they have ended, what it returns removes their group. */
export async function limitProcessors(pid: number, processors: number): Promise<() => Promise<void>> {
  const hierarchy = hierarchies.find(({ isThere }) => existsSync(isThere));
  if (hierarchy === undefined) throw new Error('this machine has no control groups that limit processors');
  const group = join(hierarchy.root, `lancegate-bench-${pid}`);
  await mkdir(group);
  for (const [file, content] of Object.entries(hierarchy.limits(Math.round(processors * periodUs))))
    await writeFile(join(group, file), content);
  await writeFile(join(group, 'cgroup.procs'), String(pid));
  return () => rmdir(group);
}
