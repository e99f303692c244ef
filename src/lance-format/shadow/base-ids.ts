/** Files of fragments and indexes under another base path. A file without a base id is in the folder of its own dataset. */
import { decode, edit } from '../message-codec.ts';
import { dataFile, deletionFile, fragment, index } from '../messages.ts';

export interface BaseChange {
  /** Files with this base id get the other; all others keep theirs. */
  readonly from: number | undefined;
  readonly to: number | undefined;
  /** Deletion vectors and indexes without a base id count as made from this version, if they count as made from a later one. */
  readonly madeFrom?: number;
}

export function fragmentWith(change: BaseChange, encoded: Uint8Array): Uint8Array {
  const { files, deletionFile: deletions } = decode(fragment, encoded, ['files', 'deletionFile']);
  return edit(fragment, encoded, {
    files: files?.map((file) =>
      decode(dataFile, file, ['baseId']).baseId === change.from ? edit(dataFile, file, { baseId: change.to }) : file,
    ),
    deletionFile: deletions && deletionsWith(change, deletions),
  });
}

function deletionsWith({ from, to, madeFrom = Infinity }: BaseChange, encoded: Uint8Array): Uint8Array {
  const { baseId, readVersion = 0 } = decode(deletionFile, encoded, ['baseId', 'readVersion']);
  if (baseId === from) return edit(deletionFile, encoded, { baseId: to });
  return baseId === undefined && readVersion > madeFrom
    ? edit(deletionFile, encoded, { readVersion: madeFrom })
    : encoded;
}

export function indexWith({ from, to, madeFrom = Infinity }: BaseChange, encoded: Uint8Array): Uint8Array {
  const { baseId, datasetVersion = 0 } = decode(index, encoded, ['baseId', 'datasetVersion']);
  if (baseId === from) return edit(index, encoded, { baseId: to });
  return baseId === undefined && datasetVersion > madeFrom
    ? edit(index, encoded, { datasetVersion: madeFrom })
    : encoded;
}
