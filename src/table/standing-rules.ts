/**
 * The rules that are in force for the rows of a request. The request says a rule, or else a default of the table does: the entry
 * `lancegate.` and the name of the rule, in the metadata of its schema, or else in its properties. An empty text is no rule, so a
 * request can do without a default.
 */
import type { Schema } from '../arrow/schema/schema.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';

/** They are of all requests with rows. */
export const sourceRuleNames = ['on_invalid', 'max_invalid', 'schema'] as const;

/** How rows are taken that come twice or late, break a rule or have more columns than the table; all are of merges. */
export const ruleNames = [
  ...(['on_duplicate', 'version_column', 'tombstone'] as const),
  ...sourceRuleNames,
  'key_required',
] as const;
export type RuleName = (typeof ruleNames)[number];
export type RuleTexts = Readonly<Partial<Record<RuleName, string>>>;

/** The values of `on_invalid`. */
export const invalidWays = ['refuse', 'report'] as const;

/** What becomes of columns that the table lacks. */
export const schemaModes = ['strict', 'extend'] as const;

/** The columns of a declared table have the name `lancegate.schema`. */
export const propertyOf = (name: RuleName): string => `lancegate.${name === 'schema' ? 'schema_mode' : name}`;

/** Names a rule in a refusal. */
export type ShownRule = (name: RuleName) => string;

interface StandingRules {
  readonly texts: RuleTexts;
  /** Those of them that the table said. */
  readonly defaults: RuleTexts;
  readonly shown: ShownRule;
}

export function standingRules(
  names: readonly RuleName[],
  asked: RuleTexts,
  properties: Properties,
  metadata: Schema['metadata'],
): StandingRules {
  const standing = names.flatMap((name) => {
    const text = metadata.get(propertyOf(name)) ?? properties[propertyOf(name)];
    return asked[name] !== undefined || text === undefined || text === '' ? [] : [[name, text] as const];
  });
  const defaults: RuleTexts = Object.fromEntries(standing);
  return {
    texts: { ...defaults, ...asked },
    defaults,
    shown: (name) => (name in defaults ? `${propertyOf(name)}, a default of the table` : name),
  };
}

/** True where the table gets columns and wider types that a source has. */
export function readSchemaMode({ schema: mode }: RuleTexts, shown: ShownRule = (name) => name): boolean {
  if (mode && !schemaModes.some((each) => each === mode))
    throw invalidInput(`${shown('schema')}: expected one of ${schemaModes.join(', ')}`);
  return mode === 'extend';
}
