import { type Decoded, decode, fieldsIn } from '../message-codec.ts';
import { transaction } from '../messages.ts';

export type Operation = Exclude<keyof Decoded<typeof transaction>, 'readVersion' | 'uuid'>;

const firstOperation = 100;

/** What a transaction did, by the name of the field; `unknown` for one of a newer Lance, undefined without any. */
export function operationOf(encoded: Uint8Array): Operation | 'unknown' | undefined {
  const { readVersion, uuid, ...operations } = decode(transaction, encoded);
  const [name] = Object.keys(operations) as Operation[];
  return name ?? (fieldsIn(encoded).some(({ number }) => number >= firstOperation) ? 'unknown' : undefined);
}
