/**
 * An SQL condition of a client's. The engine's parser stops where an expression ends and ignores what follows: of
 * `id > 1 v = 'x'`, an AND forgotten, it would delete by the first half. Within parentheses that is an error, as long as
 * the text does not close them itself.
 */
import { invalidInput } from '../kernel/errors.ts';

/** Without their ends they reach to the end of the text, so that each is read once. */
const quotedOrComment = /'[^']*(?:'|$)|"[^"]*(?:"|$)|`[^`]*(?:`|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;

/** The condition in parentheses; `InvalidInput` names the parameter. The line end closes a comment. */
export function parseFilter(text: string, name: string): string {
  if (text.trim() === '') throw invalidInput(`${name}: the expression is empty`);
  if (closesWhatItDidNotOpen(text)) {
    throw invalidInput(`${name}: the expression closes a parenthesis that it did not open`);
  }
  return `(${text}\n)`;
}

function closesWhatItDidNotOpen(text: string): boolean {
  let depth = 0;
  for (const parenthesis of text.replaceAll(quotedOrComment, ' ').replaceAll(/[^()]/g, '')) {
    depth += parenthesis === '(' ? 1 : -1;
    if (depth < 0) return true;
  }
  return false;
}
