/** What a dataset says of its indexes, as `IndexReads` of the port. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import {
  branchFolder,
  indexFolders,
  namesIn,
  readManifest,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import type { IndexDescription, IndexReads, IndexStatistics } from '../../port/indexes.ts';
import { ignoreMissing } from '../durability/durability.ts';
import type { VersionsFolder } from '../head/dataset-head.ts';
import type { NativeIndex, NativeTable } from '../native/native.ts';
import { typeOfIndex } from '../native/native-index.ts';
import { engineCall } from '../native/translate-errors.ts';

export class StoredIndexes implements IndexReads {
  readonly #table: () => Promise<NativeTable>;
  /** undefined on object stores, and of a version that is not the newest. */
  readonly #folder: VersionsFolder | undefined;

  constructor(table: () => Promise<NativeTable>, folder: VersionsFolder | undefined) {
    this.#table = table;
    this.#folder = folder;
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
    return engineCall('open', async () => {
      for (const path of await this.#filesOf(uuid)) await readThrough(path, signal);
    });
  }

  async #filesOf(uuid: string): Promise<readonly string[]> {
    if (this.#folder === undefined) return [];
    const { datasetPath, branch, path } = this.#folder;
    const file = readManifest(path, await (await this.#table()).version());
    if (file === undefined) return []; // pruned meanwhile
    const manifest = parseManifest(file.bytes);
    const folder = branchFolder(datasetPath, branch);
    const unlisted = indexFolders(manifest, folder).flatMap((each) => namesIn(each).map((name) => join(each, name)));
    const listed = storedFiles(manifest, folder).flatMap(({ kind, path: each }) => (kind === 'index' ? [each] : []));
    return [...listed, ...unlisted].filter((each) => each.split('/').includes(uuid));
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

const readBytes = 2 ** 20;

/** Nothing for a file that is gone meanwhile. */
async function readThrough(path: string, signal: AbortSignal): Promise<void> {
  const file = await open(path).catch(ignoreMissing);
  if (file === undefined) return;
  try {
    const buffer = Buffer.allocUnsafe(readBytes);
    do signal.throwIfAborted();
    while ((await file.read(buffer, 0, readBytes)).bytesRead > 0);
  } finally {
    await file.close();
  }
}
