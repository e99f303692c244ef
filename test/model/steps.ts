/** What can be done to the tables of the model: plain data, so that a sequence can be printed, replayed and cut. */
import type { Codec } from '#test/fixtures/ipc-writer.ts';
import type { Column } from './columns.ts';
import { type Condition, conditionSql } from './conditions.ts';
import { type Row, textOf } from './values.ts';

export interface OnPath {
  /** As the client writes it. */
  readonly text: string;
  readonly segments: readonly string[];
}

export interface Source {
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly batches: number;
  readonly codec: Codec;
}

/** Parameters of the query; undefined is left out. */
export interface Flags {
  readonly update?: boolean | undefined;
  readonly updateIf?: Condition | undefined;
  readonly insert?: boolean | undefined;
  readonly delete?: boolean | undefined;
  readonly deleteIf?: Condition | undefined;
}

export interface MergeStep {
  readonly kind: 'merge';
  readonly table: string;
  /** Undefined is main. */
  readonly branch?: string | undefined;
  readonly on: readonly OnPath[];
  readonly flags: Flags;
  readonly useIndex?: boolean | undefined;
  readonly source: Source;
}
export interface CreateStep {
  readonly kind: 'create';
  readonly table: string;
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
  readonly source: Source;
}
export interface CreateBranchStep {
  readonly kind: 'create branch';
  readonly table: string;
  readonly branch: string;
  readonly fromBranch?: string | undefined;
  readonly fromVersion?: number | undefined;
}

export type Step =
  | MergeStep
  | CreateStep
  | CreateBranchStep
  | { readonly kind: 'delete branch'; readonly table: string; readonly branch: string }
  | { readonly kind: 'declare' | 'drop'; readonly table: string }
  /** An operator's BTREE on a column of main, made past the service. */
  | { readonly kind: 'index'; readonly table: string; readonly column: string }
  | { readonly kind: 'restart'; readonly table: string };

export const mergeParameters = ({ on, branch, flags, useIndex }: MergeStep): string => {
  const query = new URLSearchParams(on.map(({ text }): [string, string] => ['on', text]));
  const set = (name: string, value: boolean | string | undefined) =>
    value === undefined ? undefined : query.set(name, String(value));
  set('branch', branch);
  set('when_matched_update_all', flags.update);
  set('when_matched_update_all_filt', flags.updateIf && conditionSql(flags.updateIf));
  set('when_not_matched_insert_all', flags.insert);
  set('when_not_matched_by_source_delete', flags.delete);
  set('when_not_matched_by_source_delete_filt', flags.deleteIf && conditionSql(flags.deleteIf));
  set('use_index', useIndex);
  return query.toString();
};

const columnText = ({ name, type, nullable, fields }: Column): string =>
  `${JSON.stringify(name)} ${type}${fields.length === 0 ? '' : `<${fields.map(columnText).join(', ')}>`}${nullable ? '' : ' not null'}`;

export const sourceText = ({ columns, rows, batches, codec }: Source): string =>
  [`${columns.map(columnText).join(', ')} (${batches} batches, ${codec})`, ...rows.map(textOf)].join('\n      ');

/** For people. */
export function stepText(step: Step): string {
  switch (step.kind) {
    case 'create':
      return `create ${step.table} mode=${step.mode}: ${sourceText(step.source)}`;
    case 'merge':
      return `merge into ${step.table} ${decodeURIComponent(mergeParameters(step).replaceAll('+', ' '))}: ${sourceText(step.source)}`;
    case 'create branch':
      return `create branch ${step.branch} of ${step.table} from ${step.fromBranch ?? 'main'} at ${step.fromVersion ?? 'latest'}`;
    case 'delete branch':
      return `delete branch ${step.branch} of ${step.table}`;
    case 'index':
      return `index ${step.table}.${step.column}`;
    case 'declare':
    case 'drop':
    case 'restart':
      return `${step.kind} ${step.table}`;
  }
}
