/** Properties of tables: those whose names begin with `lancegate.` say how the service treats a table, and others are the client's. */
import { columnsProperty } from '../../create/declared-columns.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { Properties } from '../../kernel/ids.ts';
import { didYouMean } from '../../kernel/nearest-word.ts';
import { maxDeletedProperty } from '../../kernel/write-bounds.ts';
import { columnProperty, keptProperty } from '../../table/row-ends.ts';
import { propertyOf, ruleNames } from '../../table/standing-rules.ts';

const known = [...ruleNames.map(propertyOf), maxDeletedProperty, columnProperty, keptProperty, columnsProperty];

/** One that is not known would be passed over, and the table treated otherwise than was meant. `InvalidInput`. */
export function requireKnownProperties(properties: Properties): void {
  const unknown = Object.keys(properties).find((name) => /^lancegate\./i.test(name) && !known.includes(name));
  if (unknown === undefined) return;
  const shown = unknown.slice(0, 100);
  throw invalidInput(`properties: no ${JSON.stringify(shown)} is known${didYouMean(shown, known)}`);
}
