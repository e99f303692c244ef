import { LancegateError } from '../kernel/errors.ts';
import type { ReadFilter } from './merge-parameters.ts';

/**
 * Reads rows by filters in which, directly behind an equals sign, a name in double quotes that no column has is a text: so SDKs before
 * 0.38 read it on a database of files, and programs such as dlt write it to any. Not for what changes rows: a misspelt name must not
 * widen what is.
 */
export async function withEitherQuotes<Result>(
  readFilter: ReadFilter,
  run: (readFilter: ReadFilter) => Promise<Result>,
): Promise<Result> {
  const asTexts: ReadFilter = (text, parameter) => readFilter(text, parameter, 'texts behind =');
  let mayBeTexts = false;
  const asNames: ReadFilter = (text, parameter) => {
    const filter = readFilter(text, parameter);
    mayBeTexts ||= filter !== asTexts(text, parameter);
    return filter;
  };
  try {
    return await run(asNames);
  } catch (error) {
    if (!mayBeTexts || !(error instanceof LancegateError) || error.kind !== 'TableColumnNotFound') throw error;
    return run(asTexts);
  }
}
