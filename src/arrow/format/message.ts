/** One message of the IPC stream format, as its metadata says: which kind, where its header is, how long its body is. */
import { invalidInput } from '../../kernel/errors.ts';
import { FlatTable } from './flatbuffer.ts';

export const fileMagic = Buffer.from('ARROW1');
/** As it stands in front of a file's messages. */
export const magic = Buffer.from('ARROW1\0\0');
/** In front of every message since Arrow 0.15: this word, then the length of the metadata. */
export const continuation = -1;
export const prefixBytes = 8;
export const endMarker = Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]);

export type MessageKind = 'schema' | 'dictionary' | 'batch';

export interface Message {
  readonly kind: MessageKind;
  readonly header: FlatTable;
  readonly bodyLength: number;
}

export const metadataV5 = 4;
/** Of `Block`, which says where a message lies in a file. */
export const bytesOfBlock = 24;

/** The types of messages that this service writes. */
export const messageNumber = { schema: 1, batch: 3 } as const;

function messageKind(number: number): MessageKind {
  switch (number) {
    case 1:
      return 'schema';
    case 2:
      return 'dictionary';
    case 3:
      return 'batch';
    case 4:
    case 5:
      throw invalidInput('tensors are not supported');
    default:
      throw invalidInput(`messages of type ${number} are unknown`);
  }
}

/** `metadata` is the flatbuffer behind the eight bytes of the prefix. Throws `InvalidInput`. */
export function readMessage(metadata: Buffer): Message {
  const message = FlatTable.root(metadata);
  const version = message.int16(0, 0);
  if (version !== metadataV5) throw invalidInput(`metadata version V${version + 1} is not supported; V5 is wanted`);
  const kind = messageKind(message.uint8(1, 0));
  const header = message.table(2);
  if (header === undefined) throw invalidInput('the message has no header');
  const bodyLength = message.length(3, 'the length of the body');
  if (bodyLength % 8 !== 0) throw invalidInput('the body is not padded to eight bytes');
  return { kind, header, bodyLength };
}

export const messageKindName: Readonly<Record<MessageKind, string>> = {
  schema: 'schema',
  dictionary: 'dictionary batch',
  batch: 'record batch',
};
