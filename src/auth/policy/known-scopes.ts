/** Finds the scopes that policies ask for. */
import * as cedar from '@cedar-policy/cedar-wasm/nodejs';
import { isObject } from '../../kernel/json-bounds.ts';
import { AccessSetupError } from '../challenge.ts';

/**
 * Every scope that the policies compare with those of a principal. Undefined where each can be meant: no policy looks at scopes,
 * or one compares them with what a request brings, such as the name of a table. `AccessSetupError` if the text is no policies.
 */
export function knownScopes(policies: string): ReadonlySet<string> | undefined {
  const parts = cedar.policySetTextToParts(policies);
  if (parts.type === 'failure') throw broken(parts.errors);
  const compared = parts.policies.map((policy) => {
    const parsed = cedar.policyToJson(policy);
    if (parsed.type === 'failure') throw broken(parsed.errors);
    return comparisons(parsed.json.conditions);
  });
  const operands = compared.flat().flatMap(leaves);
  if (operands.length === 0 || operands.some(({ kind }) => kind === 'Var')) return undefined;
  return new Set(operands.map(({ leaf }) => leaf));
}

const broken = (errors: readonly cedar.DetailedError[]): AccessSetupError =>
  new AccessSetupError(errors.map(({ message }) => message).join('\n'));

const comparing: ReadonlySet<string> = new Set(['==', '!=', 'contains', 'containsAll', 'containsAny']);

/** Returns the outermost comparisons below a part of a policy that have scopes in them. */
function comparisons(part: unknown): readonly unknown[] {
  return fieldsOf(part).flatMap(([name, value]) =>
    comparing.has(name) && hasScopes(value) ? [value] : comparisons(value),
  );
}

const hasScopes = (part: unknown): boolean => isScopes(part) || fieldsOf(part).some(([, value]) => hasScopes(value));

/** The part is `principal.scopes`: no other entity of the schema has an attribute of that name. */
const isScopes = (part: unknown): boolean =>
  fieldsOf(part).some(([name, value]) => name === '.' && isObject(value) && value.attr === 'scopes');

/** Returns the texts of a comparison, and the variables that scopes are compared with. */
function leaves(part: unknown): readonly { readonly kind: string; readonly leaf: string }[] {
  if (isScopes(part)) return [];
  return fieldsOf(part).flatMap(([kind, value]) =>
    ['Value', 'Var'].includes(kind) && typeof value === 'string' ? [{ kind, leaf: value }] : leaves(value),
  );
}

const fieldsOf = (part: unknown): readonly [string, unknown][] =>
  typeof part === 'object' && part !== null ? Object.entries(part) : [];
