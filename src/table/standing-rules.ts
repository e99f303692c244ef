/**
 * The rules that are in force for the rows of a request. The request says a rule, or else a default of the table does: the entry
 * `lancegate.` and the name of the rule, in the metadata of its schema, or else in its properties. An empty text is no rule, so a
 * request can do without a default.
 */
import type { Schema } from '../arrow/schema/schema.ts';
import type { Properties } from '../kernel/ids.ts';

export const invalidRuleNames = ['on_invalid', 'max_invalid'] as const;

/** How rows are taken that come twice or late, or break a rule; all are of merges, and those of invalid rows of all that take rows. */
export const ruleNames = ['on_duplicate', 'version_column', ...invalidRuleNames, 'key_required'] as const;
export type RuleName = (typeof ruleNames)[number];
export type RuleTexts = Readonly<Partial<Record<RuleName, string>>>;

/** The values of `on_invalid`. */
export const invalidWays = ['refuse', 'report'] as const;

export const propertyOf = (name: RuleName): string => `lancegate.${name}`;

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
