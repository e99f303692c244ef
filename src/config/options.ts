/**
 * An option is one thing the operator can say, whether it is a setting of the service or an argument of one command.
 * Tables of options are plain objects; the type of the values follows from the table.
 */
import { entriesOf } from '../kernel/paired.ts';
import type { ValueType } from './value-types.ts';

export interface Option<T> {
  /** It has no dashes. */
  readonly flag: string;
  readonly type: ValueType<T>;
  /** Text, read by the same type. */
  readonly default: string | undefined;
  readonly required: boolean;
  /** It has whole sentences. */
  readonly doc: string;
}

export type OptionTable = Readonly<Record<string, Option<unknown>>>;
export type OptionValues<Table> = { readonly [Name in keyof Table]: Table[Name] extends Option<infer T> ? T : never };

type OptionWords = Pick<Option<unknown>, 'flag' | 'doc'>;

export const required = <T>(type: ValueType<T>, words: OptionWords): Option<T> => ({
  ...words,
  type,
  default: undefined,
  required: true,
});
export const optional = <T>(type: ValueType<T>, words: OptionWords): Option<T | undefined> => ({
  ...words,
  type,
  default: undefined,
  required: false,
});
export const withDefault = <T>(
  type: ValueType<T>,
  words: OptionWords & { default: string },
): Option<T> & { readonly default: string } => ({
  ...words,
  type,
  required: false,
});

/** A text that was found for an option, and where: `--port`, `LANCEGATE_PORT`, `default`. */
export interface Found {
  readonly text: string;
  readonly source: string;
}

export interface OptionReading<Table> {
  readonly values: OptionValues<Table>;
  readonly sources: Readonly<Record<string, string>>;
  /** If there are any, `values` is incomplete and must not be used. */
  readonly problems: readonly string[];
}

/** Reads every option of a table, what `find` does not have from its default, and collects what is wrong with any. */
export function readOptions<Table extends OptionTable>(
  table: Table,
  find: (option: Table[keyof Table]) => Found | undefined,
  cwd: string,
): OptionReading<Table> {
  const values: Record<string, unknown> = {};
  const sources: Record<string, string> = {};
  const problems: string[] = [];
  for (const [name, option] of entriesOf(table)) {
    const found =
      find(option) ?? (option.default === undefined ? undefined : { text: option.default, source: 'default' });
    values[name] = found && option.type.parse(found.text, cwd);
    sources[name] = found?.source ?? 'default';
    if (found && values[name] === undefined) problems.push(describeBadValue(option, found));
    if (!found && option.required) problems.push(`--${option.flag} is required: ${option.doc}`);
  }
  return { values: Object.freeze(values) as OptionValues<Table>, sources, problems };
}

function describeBadValue(option: Option<unknown>, found: Found): string {
  const seen = option.type.secret ? 'the value (not shown)' : JSON.stringify(found.text);
  return `${found.source}: ${seen} is not accepted; expected ${option.type.expects}`;
}
