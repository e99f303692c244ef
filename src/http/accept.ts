/** In which form a client wants rows, by the header `Accept` (RFC 9110, 12.5.1) and the parameter `vectors`. */
import Negotiator from 'negotiator';
import Type from 'typebox';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import {
  type AnswerForm,
  arrowFileType,
  arrowStreamType,
  type TextFormat,
  textTypes,
  type VectorText,
} from '../rows/answer-form.ts';
import type { QueryOf } from '../wire/query-parameters.ts';

const vectorTexts: readonly VectorText[] = ['omit', 'preview', 'full'];

export const answerParameters = {
  vectors: Type.Optional(Type.Union(vectorTexts.map((text) => Type.Literal(text)))),
};

/** The first is what a client gets that takes any. */
export const answerTypes: readonly string[] = [arrowFileType, arrowStreamType, ...Object.values(textTypes)];

/** Text is UTF-8 also for who says so. */
const acceptedTypes: readonly string[] = answerTypes.flatMap((type) => [type, `${type}; charset=utf-8`]);

/** Clients that are generated from the specification ask for JSON, and read an Arrow file. */
const generatedClient = /^OpenAPI-Generator\//;

interface AnswerHeaders {
  readonly accept: string | undefined;
  readonly userAgent: string | undefined;
}

export function readAnswerForm({ accept, userAgent }: AnswerHeaders, query: QueryOf<'vectors'>): AnswerForm {
  const vectors = query.one('vectors', parseVectors) ?? 'full';
  if (accept === undefined || generatedClient.test(userAgent ?? '')) return { kind: 'arrow file' };
  const [accepted] = new Negotiator({ headers: { accept } }).mediaTypes([...acceptedTypes]);
  const type = answerTypes.find((each) => each === accepted?.split(';', 1)[0]);
  if (type === undefined)
    throw new LancegateError('Unsupported', `accept: rows are answered as ${answerTypes.join(', ')}`);
  if (type === arrowFileType) return { kind: 'arrow file' };
  if (type === arrowStreamType) return { kind: 'arrow stream' };
  const [format] = Object.entries(textTypes).find(([, of]) => of === type) as [TextFormat, string];
  return { kind: 'text', format, vectors };
}

export function typeOfForm(form: AnswerForm): string {
  switch (form.kind) {
    case 'arrow file':
      return arrowFileType;
    case 'arrow stream':
      return arrowStreamType;
    case 'text':
      return form.format === 'csv' ? `${textTypes.csv}; charset=utf-8` : textTypes[form.format];
  }
}

function parseVectors(text = ''): VectorText {
  const known = vectorTexts.find((each) => each === text);
  if (known === undefined) throw invalidInput(`vectors: expected one of ${vectorTexts.join(', ')}`);
  return known;
}
