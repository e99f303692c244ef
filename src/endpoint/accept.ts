/** The header `Accept` (RFC 9110, 12.5.1) and the parameter `vectors` say in which form a client wants rows. */
import Negotiator from 'negotiator';
import Type from 'typebox';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import {
  type AnswerForm,
  arrowFileType,
  arrowStreamType,
  ndjsonTypes,
  textTypes,
  type VectorText,
} from '../rows/answer-form.ts';
import { bodyFormatOf } from '../rows/bodies/row-conversion.ts';
import type { QueryOf } from '../wire/query-parameters.ts';

const vectorTexts: readonly VectorText[] = ['omit', 'preview', 'full'];

export const answerParameters = {
  vectors: Type.Optional(
    Type.Enum([...vectorTexts], {
      type: 'string',
      description: 'What a text has of vectors: nothing, their first values, or all, as if absent.',
    }),
  ),
};

/** The first is what a client gets that takes any. */
export const answerTypes: readonly string[] = [arrowFileType, arrowStreamType, ...Object.values(textTypes)];

/** Text is UTF-8 also for who says so. */
const acceptedTypes: readonly string[] = [
  ...[...answerTypes, ...ndjsonTypes],
  ...['present', 'absent'].map((header) => `${textTypes.csv}; header=${header}`),
].flatMap((type) => [type, `${type}; charset=utf-8`]);

/** Clients that are generated from the specification ask for JSON, and read an Arrow file. */
const generatedClient = /^OpenAPI-Generator\//;

interface AnswerHeaders {
  readonly accept: string | undefined;
  readonly userAgent: string | undefined;
}

interface Accepted {
  readonly form: AnswerForm;
  readonly contentType: string;
}

export function readAnswerForm({ accept, userAgent }: AnswerHeaders, query: QueryOf<'vectors'>): Accepted {
  const file = { form: { kind: 'arrow file' }, contentType: arrowFileType } as const;
  const vectors = query.one('vectors', parseVectors) ?? 'full';
  if (accept === undefined || generatedClient.test(userAgent ?? '')) return file;
  const [accepted] = new Negotiator({ headers: { accept } }).mediaTypes([...acceptedTypes]);
  const type = accepted?.split(';', 1)[0];
  if (type === arrowFileType) return file;
  if (type === arrowStreamType) return { form: { kind: 'arrow stream' }, contentType: type };
  const format = bodyFormatOf(accepted);
  if (type === undefined || format === undefined)
    throw new LancegateError('Unsupported', `accept: rows are answered as ${answerTypes.join(', ')}`);
  const form = { kind: 'text', format, vectors } as const;
  switch (format) {
    case 'json':
    case 'ndjson':
      return { form, contentType: type };
    case 'csv':
      return { form, contentType: `${type}; charset=utf-8` };
    case 'csv-without-header':
      return { form, contentType: `${type}; charset=utf-8; header=absent` };
  }
}

function parseVectors(text = ''): VectorText {
  const known = vectorTexts.find((each) => each === text);
  if (known === undefined) throw invalidInput(`vectors: expected one of ${vectorTexts.join(', ')}`);
  return known;
}
