/** The answer to a query of a table that is only declared: there is nothing on storage that a reader could open. */
import type { Field } from '../arrow/schema/schema.ts';
import { emptyFile } from '../arrow/schema/schema-bytes.ts';
import type { QuerySpec } from '../engine/port/query-spec.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import { answerBytesOf } from './answer-orders.ts';
import type { QueryResult } from './protocol.ts';

/** Those of the declared columns that the query selects by their names, or all, and no rows. What it computes has no type here. */
export function resultOfNothing(
  declared: readonly Field[],
  { columns }: Pick<QuerySpec, 'columns'>,
  form: AnswerForm,
): QueryResult {
  const selected = columns?.flatMap(({ name }) => declared.find((field) => field.name === name) ?? []);
  const answer = answerBytesOf(form);
  const whole = Buffer.concat([...answer.add(emptyFile(selected ?? declared)), ...answer.end()]);
  return { whole, parts: (async function* () {})(), facts: () => ({ version: 0, rows: 0 }) };
}
