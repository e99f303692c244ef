/**
 * Many writers, compared with the bare engine doing the same in one process, each request its own merge: `npm run bench:writers`.
 * `--seconds` is the length of each load (60), `--upserts` the number of single-row upserts (10,000), `--rows` the size of
 * the large table (10,000,000), `--only` names parts: many, far, one, cold, large, overload; `--profile` adds where
 * the service's threads spent their time.
 */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { type Row, table } from './measure.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    upserts: { type: 'string', default: '10000' },
    rows: { type: 'string', default: '10000000' },
    only: { type: 'string', default: 'many,far,one,cold,large,overload' },
    profile: { type: 'boolean', default: false },
  },
});
const { seconds, upserts, rows, profile } = values;
const partProgram = fileURLToPath(new URL('./writers-part.ts', import.meta.url));

/**
 * Each part has processes and a folder of its own, so that none sees what another left behind. The folders stay until all is
 * measured: a disk may be slow for minutes after gigabytes have been removed from it.
 */
async function run(part: string, folder: string): Promise<readonly Row[]> {
  const sizes = ['--seconds', seconds, '--upserts', upserts, '--rows', rows];
  const args = [partProgram, '--part', part, '--folder', folder, ...sizes, ...(profile ? ['--profile'] : [])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const printed = await text(child.stdout);
  if ((await exited) !== 0) throw new Error(`--only: '${part}' could not be measured`);
  return JSON.parse(printed) as readonly Row[];
}

/** Of the bare engine, too, which leaves that to the kernel. */
const writeAllToDisk = (): Promise<unknown> => promisify(execFile)('sync');

async function runAll(parts: readonly string[], root: string): Promise<readonly Row[]> {
  const measured: Row[] = [];
  for (const part of parts) {
    process.stderr.write(`${part}\n`);
    await writeAllToDisk();
    measured.push(...(await run(part, join(root, part))));
  }
  return measured;
}

const root = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
try {
  process.stdout.write(`${table(await runAll(values.only.split(','), root))}\n`);
} finally {
  await rm(root, { recursive: true, force: true });
}
