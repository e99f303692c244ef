import { invalidInput, type LancegateError } from '../kernel/errors.ts';

/** What is wrong with a text, and where: `at` is an offset into it. */
export class SqlMistake extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

/** `parameter` is what the client calls the text. */
export function refusalOf(mistake: SqlMistake, parameter: string, text: string): LancegateError {
  return invalidInput(`${parameter}: ${mistake.message} (${placeOf(mistake.at, text)})`, mistake);
}

/** Lines and columns count from one; of a single line the column is enough. */
function placeOf(at: number, text: string): string {
  const before = text.slice(0, at);
  const lineStart = before.lastIndexOf('\n') + 1;
  const column = `column ${[...before.slice(lineStart)].length + 1}`;
  return text.includes('\n') ? `line ${before.split('\n').length}, ${column}` : column;
}

/** A chunk of the client's own text, as a message quotes it. */
export const shown = (text: string): string => (text.length > 40 ? `${text.slice(0, 40)}…` : text);
