/**
 * How memory is divided. The service takes `--memory-limit` for its own process plus the limit of each reader. A merge with a
 * filter may take more in its reader: what was reserved for its body here.
 *
 * The plan for the limit covers the worst case, so that the limit on resident memory only has to catch what no plan foresees;
 * docs/design/admission-and-memory.md says more.
 */
import { type Config, leastMemoryLimitBytes, leastReaderMemoryBytes, type SettingName } from './settings.ts';
import { MiB } from './value-types.ts';

/** Node, the engine's code and its pages of indexes and manifests, what an idle service holds, and what is not collected yet. */
const ownBytes = 344 * MiB;
/** A merge takes more than its body: keys, and buffers that are not full. A create has several chunks under way. */
const mergesPerPart = 2;

/** What the key indexes of tables may take: a million keys take 21 to 40 MB. */
export const keyBytesUnder = (memoryLimitBytes: number): number => Math.floor(memoryLimitBytes / 16);

/**
 * What one merge with a filter may take in its reader, in addition to the reader's memory and the reservation for its body. A
 * merge that deletes holds the columns of the whole table, two to three times their size. It counts against the service's own
 * limit, and with few readers a principal runs one at a time.
 */
export const mergeBytesUnder = ({ memoryLimitBytes, principalShare }: Config): number =>
  Math.floor(memoryLimitBytes * principalShare);

/** How many bytes of bodies fit under the limit together with everything else. */
export const bodyBytesUnder = ({ memoryLimitBytes }: Config): number => {
  const heldBytes = ownBytes + keyBytesUnder(memoryLimitBytes);
  // A byte of a body takes four at the worst while the engine works on it, itself included.
  return Math.max(0, Math.floor((memoryLimitBytes - heldBytes) / 4));
};

/** The body memory that one principal, or one table, can have. */
export const partBytesOf = ({ bodyMemoryBytes, principalShare }: Config): number => bodyMemoryBytes * principalShare;

/** A create writes its stream in chunks of about this size; it holds about twenty times as much while it runs. */
export const chunkBytesUnder = (config: Config): number => Math.min(16 * MiB, floorToMiB(partBytesOf(config) / 8));

/** No record batch of a create is larger, nor a merge or a chunk of a create after decompression. */
export const decodedBytesUnder = (config: Config): number => {
  const fitting = floorToMiB(partBytesOf(config) / mergesPerPart);
  return Math.max(config.maxMergeBytes, Math.min(256 * MiB, fitting));
};

/**
 * The defaults are for a machine with plenty of memory; here they are made to fit a smaller one, or a smaller limit. Only
 * what is not set changes, and only downwards: what was set stays, and what cannot be is for `findConflicts` to say.
 */
export function fitToMemory(given: Config, isDefault: (name: SettingName) => boolean, machineBytes: number): Config {
  const fit = (name: SizeSetting, mostBytes: number): number =>
    isDefault(name) ? Math.min(given[name], floorToMiB(mostBytes)) : given[name];
  // One of them is left for writes while queries have the others (P10).
  const readers = Math.max(2, given.readers);
  // The page cache, the sockets and other processes need some, too.
  const allBytes = machineBytes * (3 / 4);
  // Each reader has a tenth of that: with four of them, writers have six tenths.
  const readerMemoryBytes = fit('readerMemoryBytes', Math.max(leastReaderMemoryBytes, allBytes / 10));
  const writersBytes = allBytes - readers * readerMemoryBytes;
  const memoryLimitBytes = fit('memoryLimitBytes', Math.max(leastMemoryLimitBytes, writersBytes));
  const bodyMemoryBytes = fit('bodyMemoryBytes', bodyBytesUnder({ ...given, memoryLimitBytes }));
  const partBytes = partBytesOf({ ...given, bodyMemoryBytes });
  return {
    ...given,
    readers,
    memoryLimitBytes,
    readerMemoryBytes,
    // And for the build of an index, which comes on top while there is one.
    indexMemoryBytes: fit('indexMemoryBytes', Math.max(leastReaderMemoryBytes, allBytes / 5)),
    bodyMemoryBytes,
    maxMergeBytes: fit('maxMergeBytes', partBytes / mergesPerPart),
  };
}

type SizeSetting = {
  [Name in SettingName]: Config[Name] extends number ? (Name extends `${string}Bytes` ? Name : never) : never;
}[SettingName];

const floorToMiB = (bytes: number): number => Math.max(1, Math.floor(bytes / MiB)) * MiB;
