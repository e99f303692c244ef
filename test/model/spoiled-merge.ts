/** Merges with one thing wrong: each must be refused, with nothing written. */
import { type Column, columnAt } from './columns.ts';
import { type Condition, quoted, type Side } from './conditions.ts';
import type { Random } from './random.ts';
import type { MergeStep, OnPath, Source } from './steps.ts';
import type { Row } from './values.ts';

/** Backticks are needed around dots and backticks, and allowed around anything. */
export const onPath = (random: Random, segments: readonly string[]): OnPath => ({
  segments,
  text: segments.map((name) => (/[.`]/.test(name) || random.chance(25) ? quoted(name) : name)).join('.'),
});

type Fault = (step: MergeStep, random: Random) => MergeStep;

const faults: Readonly<Record<string, Fault>> = {
  keyTwice: (step) => withSource(step, ({ rows }) => ({ rows: [...rows, ...rows.slice(0, 1)] })),
  unknownColumn: (step) =>
    withSource(step, ({ columns, rows }) => ({
      columns: [...columns, { name: 'unknown', type: 'int32', nullable: true, fields: [] }],
      rows: rows.map((row) => ({ ...row, unknown: 1n })),
    })),
  otherType: (step, random) => {
    const { name } = random.pick(step.source.columns);
    const other = (column: Column): Column =>
      column.name === name ? { name, type: 'float32', nullable: true, fields: [] } : column;
    return withSource(step, ({ columns, rows }) => ({
      columns: columns.map(other),
      rows: rows.map((row, i) => ({ ...row, [name]: i + 0.5 })),
    }));
  },
  badPath: (step, random) => ({ ...step, on: [...step.on, onPath(random, ['id', 'nothing', 'here'])] }),
  leafAlone: (step, random) => ({ ...step, on: step.on.map(({ segments }) => onPath(random, segments.slice(-1))) }),
  otherCase: (step, random) => ({
    ...step,
    on: step.on.map(({ segments }) =>
      onPath(
        random,
        segments.map((name) => name.toUpperCase()),
      ),
    ),
  }),
  structAsKey: (step, random) => {
    const first = step.on[0]?.segments.slice(0, 1) ?? [];
    const isStruct = columnAt(step.source.columns, first)?.type === 'struct';
    return isStruct ? { ...step, on: [onPath(random, first)] } : step;
  },
  unknownInUpdateFilter: (step, random) => ({
    ...step,
    flags: { ...step.flags, updateIf: asksNothing(random.pick(['target', 'source'] as const)) },
  }),
  unknownInDeleteFilter: (step) => ({ ...step, flags: { ...step.flags, deleteIf: asksNothing(undefined) } }),
  nullWhereRequired: (step, random) => {
    const required = step.source.columns.filter(({ nullable }) => !nullable);
    if (required.length === 0) return step;
    const { name } = random.pick(required);
    return withSource(step, ({ columns, rows }) => ({
      columns: columns.map((column) => (column.name === name ? { ...column, nullable: true } : column)),
      rows: rows.map((row, i): Row => (i === 0 ? { ...row, [name]: null } : row)),
    }));
  },
};

const withSource = (step: MergeStep, change: (source: Source) => Partial<Source>): MergeStep => ({
  ...step,
  source: { ...step.source, ...change(step.source) },
});

const asksNothing = (side: Side | undefined): Condition => ({
  op: 'is null',
  of: { column: { side, segments: ['nothing'], isQuoted: false } },
});

export const spoiled: Fault = (step, random) => random.pick(Object.values(faults))(step, random);
