/** The answer to a query of a table that is only declared: there is nothing on storage that a reader could open. */

import type { Field } from '../arrow/schema/schema.ts';
import { emptyFile } from '../arrow/schema/schema-bytes.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import { answerBytesOf } from './answer-orders.ts';
import type { QueryResult } from './protocol.ts';

/** All columns that the table is declared with, whatever the query selects, and no rows. */
export function resultOfNothing(columns: readonly Field[], form: AnswerForm): QueryResult {
  const answer = answerBytesOf(form);
  const whole = Buffer.concat([...answer.add(emptyFile(columns)), ...answer.end()]);
  return { whole, parts: (async function* () {})(), facts: () => ({ version: 0, rows: 0 }) };
}
