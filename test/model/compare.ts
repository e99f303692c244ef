/** What the service answered and stored, held against the reference. */
import assert from 'node:assert/strict';
import { errorCatalogue } from '#src/kernel/errors.ts';
import type { Random } from './random.ts';
import { type Branch, type Created, type Expected, rowsOf, type World } from './reference.ts';
import type { Step } from './steps.ts';
import type { Answer, Subject } from './subject.ts';
import { type Row, textOf } from './values.ts';

/** The world after the step, if the answer is as expected. */
export function settle(world: World, expected: Expected, answer: Answer): World {
  if ('refused' in expected) {
    const names = expected.refused.join(' or ');
    assert.ok('refused' in answer, `expected ${names}, got success`);
    const codes = expected.refused.map((name) => errorCatalogue[name].code);
    assert.ok(
      codes.some((code) => code === answer.refused),
      `expected ${names}: ${answer.why}`,
    );
    return world;
  }
  assert.ok('counts' in answer, `expected success, was refused: ${'why' in answer ? answer.why : ''}`);
  if (expected.counts !== undefined) assert.deepEqual(answer.counts, expected.counts, 'counts (P4)');
  const { versions } = expected;
  if (versions === undefined) return expected.worldAt(0);
  const version = answer.version ?? -1;
  assert.ok(versions.includes(version), `version ${version}, expected ${versions.join(' or ')} (P5)`);
  return expected.worldAt(version);
}

/** Every branch of the table, and one of the past versions. */
export async function compareTable(
  subject: Subject,
  world: World,
  { table: name }: Step,
  random: Random,
): Promise<void> {
  const table = world.get(name);
  if (table?.state !== 'created') {
    assert.equal(await subject.isDeclaredOnly(name), table === undefined ? undefined : true, 'is it declared only?');
    return;
  }
  for (const [branchName, branch] of table.branches) await compareBranch(subject, name, table, branchName, branch);
  const [branchName, branch] = random.pick([...table.branches]);
  const [version, rows] = random.pick([...branch.history]);
  const { location } = await subject.describe(name, branchName);
  const stored = await subject.storedRows(location, branchName, version);
  compareRows(stored, rows, `rows of ${branchName} at the past version ${version}`);
}

async function compareBranch(subject: Subject, name: string, table: Created, branchName: string, branch: Branch) {
  const { version, columns, location } = await subject.describe(name, branchName);
  assert.equal(version, branch.version, `version of ${branchName} (P5)`);
  assert.deepEqual(
    columns,
    table.columns.map((column) => column.name),
    `columns of ${branchName}`,
  );
  const rows = rowsOf(branch);
  assert.equal(await subject.countRows(name, branchName, version), rows.length, `number of rows of ${branchName}`);
  compareRows(await subject.storedRows(location, branchName), rows, `rows of ${branchName}`);
}

function compareRows(stored: readonly Row[], expected: readonly Row[], what: string): void {
  assert.deepEqual(stored.map(textOf).sort(), expected.map(textOf).sort(), what);
}
