/** What V8's CPU profiles say: where the threads of the service spend their time. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  readonly children?: readonly number[];
}
interface Profile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface Cost {
  readonly where: string;
  /** Time in the function itself. */
  readonly selfMs: number;
  /** Time in it and all it calls. */
  readonly totalMs: number;
}

/** Of a process started with `--cpu-prof`, after its end; one profile for each of its JavaScript threads. */
export async function showProfiles(folder: string, lines: number): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.cpuprofile')).sort();
  const read = async (name: string) => JSON.parse(await readFile(join(folder, name), 'utf8')) as Profile;
  return (await Promise.all(names.map(read))).map((profile) => showProfile(profile, lines)).join('\n');
}

function showProfile(profile: Profile, lines: number): string {
  const all = costs(profile);
  const sumMs = all.reduce((sum, { selfMs }) => sum + selfMs, 0);
  const list = (title: string, sorted: readonly Cost[], msOf: (cost: Cost) => number) => [
    title,
    ...sorted.slice(0, lines).map((cost) => `${((100 * msOf(cost)) / sumMs).toFixed(1).padStart(6)} %  ${cost.where}`),
  ];
  const ownCode = all.filter(({ where }) => /src\/|node_modules\//.test(where));
  return [
    `${(sumMs / 1000).toFixed(1)} s of a thread`,
    ...list(
      'in the function itself',
      all.toSorted((a, b) => b.selfMs - a.selfMs),
      (cost) => cost.selfMs,
    ),
    ...list(
      'with all it calls',
      ownCode.toSorted((a, b) => b.totalMs - a.totalMs),
      (cost) => cost.totalMs,
    ),
  ].join('\n');
}

function costs(profile: Profile): readonly Cost[] {
  const selfOf = selfTimes(profile);
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const self = new Map<string, number>();
  const total = new Map<string, number>();
  const add = (sums: Map<string, number>, where: string, ms: number) => sums.set(where, (sums.get(where) ?? 0) + ms);
  const visit = (node: ProfileNode, above: ReadonlySet<string>): number => {
    const where = placeOf(node);
    const below = new Set(above).add(where);
    let ms = selfOf.get(node.id) ?? 0;
    add(self, where, ms);
    for (const child of node.children ?? []) {
      const childNode = byId.get(child);
      if (childNode !== undefined) ms += visit(childNode, below);
    }
    if (!above.has(where)) add(total, where, ms);
    return ms;
  };
  const root = profile.nodes[0];
  if (root !== undefined) visit(root, new Set());
  return [...total].map(([where, totalMs]) => ({ where, totalMs, selfMs: self.get(where) ?? 0 }));
}

function selfTimes({ samples, timeDeltas }: Profile): Map<number, number> {
  const times = new Map<number, number>();
  for (const [i, id] of samples.entries()) times.set(id, (times.get(id) ?? 0) + (timeDeltas[i] ?? 0) / 1000);
  return times;
}

function placeOf({ callFrame: { functionName, url, lineNumber } }: ProfileNode): string {
  const name = functionName === '' ? '(anonymous)' : functionName;
  if (url === '') return name;
  const file = /(?:src|node_modules|node:)\/?.*$/.exec(url)?.[0] ?? url;
  return `${name} ${file}:${lineNumber + 1}`;
}
