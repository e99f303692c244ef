/** What a dataset says of its indexes, as `IndexReads` of the port. */
import type { IndexDescription, IndexReads, IndexStatistics } from '../../port/indexes.ts';
import type { NativeIndex, NativeTable } from '../native/native.ts';
import { typeOfIndex } from '../native/native-index.ts';
import { engineCall } from '../native/translate-errors.ts';

export class StoredIndexes implements IndexReads {
  readonly #table: () => Promise<NativeTable>;
  readonly #readFiles: IndexReads['readFiles'];

  constructor(table: () => Promise<NativeTable>, readFiles: IndexReads['readFiles']) {
    this.#table = table;
    this.#readFiles = readFiles;
  }

  list(): Promise<readonly IndexDescription[]> {
    return engineCall('open', async () => (await (await this.#table()).listIndices()).map(descriptionOf));
  }

  statistics(name: string): Promise<IndexStatistics | undefined> {
    return engineCall('open', async () => {
      const found = await (await this.#table()).indexStats(name);
      if (found === null) return undefined;
      const { numIndexedRows, numUnindexedRows, indexType, distanceType, numIndices } = found;
      const rows = { indexedRows: numIndexedRows, unindexedRows: numUnindexedRows };
      return { ...rows, type: typeOfIndex(indexType), distanceType, parts: numIndices };
    });
  }

  readFiles(uuid: string, signal: AbortSignal): Promise<void> {
    return engineCall('open', () => this.#readFiles(uuid, signal));
  }
}

function descriptionOf(index: NativeIndex): IndexDescription {
  const { name, indexType, columns, indexUuid, typeUrl, createdAt, indexDetails } = index;
  return {
    name,
    uuid: indexUuid,
    columns,
    type: typeOfIndex(indexType),
    typeUrl,
    indexedRows: index.numIndexedRows,
    unindexedRows: index.numUnindexedRows,
    bytes: index.sizeBytes,
    segments: index.numSegments,
    createdAtMs: createdAt?.getTime(),
    formatVersion: index.indexVersion,
    details: indexDetails === undefined ? undefined : JSON.stringify(indexDetails),
  };
}
