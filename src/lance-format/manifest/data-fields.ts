import { decode, fieldsIn } from '../message-codec.ts';
import { field } from '../messages.ts';

/**
 * Whether files written for the columns `source` are as those written for `target`: the same columns in the same order, with the
 * same ids and metadata. A column without NULLs may be stored where they are allowed.
 */
export const fitInto = (source: readonly Uint8Array[], target: readonly Uint8Array[]): boolean =>
  source.length === target.length &&
  source.every((each, index) => {
    const into = target[index];
    return into !== undefined && restOf(each) === restOf(into) && (allowsNull(into) || !allowsNull(each));
  });

const allowsNull = (encoded: Uint8Array): boolean => decode(field, encoded).isNullable === true;

const restOf = (encoded: Uint8Array): string =>
  fieldsIn(encoded)
    .filter(({ number }) => number !== field.fields.isNullable.number)
    .map(({ raw }) => Buffer.from(raw).toString('latin1'))
    .sort()
    .join('\n');
