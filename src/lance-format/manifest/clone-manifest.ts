import { WireReader } from '../wire-reader.ts';
import { WireWriter } from '../wire-writer.ts';
import {
  flag,
  fragmentField,
  manifestFile,
  manifestField as of,
  readDraft,
  timestamp,
  without,
} from './manifest-draft.ts';

/** The field of `DataFile` and of `DeletionFile` that says below which base path the file is. */
const baseField = 7;
/** Fields of `BasePath`. */
const baseId = 1;
const isDatasetRoot = 3;
const path = 4;

/**
 * The manifest of a dataset that has some fragments of another one, whose files stay where they are, and no more of it: what
 * Lance calls a shallow clone (`BasePath` in `protos/table.proto`). `folder`: where the manifest `current` belongs, absolute.
 */
export function cloneManifest(current: Buffer, fragments: ReadonlySet<number>, folder: string): Buffer {
  const { kept, fragments: all, readerFlags, writerFlags, maxFragmentId } = readDraft(current);
  const base = kept.reduce((next, raw) => Math.max(next, baseIdOf(raw) + 1), 0);
  const message = new WireWriter();
  for (const raw of kept) if (fieldOf(raw) !== of.branch) message.raw(raw);
  const root = new WireWriter().number(baseId, base).flag(isDatasetRoot, true).text(path, folder);
  message.message(of.basePath, root);
  for (const { id, bytes } of all) if (fragments.has(id)) message.bytes(of.fragment, withBase(bytes, base));
  message.number(of.version, 1);
  message.message(of.timestamp, timestamp(0));
  message.number(of.readerFlags, readerFlags | flag.basePaths);
  message.number(of.writerFlags, writerFlags | flag.basePaths);
  message.number(of.maxFragmentId, maxFragmentId);
  return manifestFile(current, undefined, undefined, message);
}

const fieldOf = (raw: Uint8Array): number | undefined => new WireReader(raw).next();

/** −1 for a field that is no base path. */
function baseIdOf(raw: Uint8Array): number {
  const outer = new WireReader(raw);
  if (outer.next() !== of.basePath) return -1;
  const reader = outer.message();
  let id = 0;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === baseId) id = reader.number();
    else reader.skip();
  }
  return id;
}

/** Files that are elsewhere already stay there. */
function withBase(fragment: Uint8Array, base: number): Uint8Array {
  const reader = new WireReader(fragment);
  const writer = new WireWriter();
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === fragmentField.file || field === fragmentField.deletionFile) {
      writer.bytes(field, fileWithBase(reader.bytes(), base));
    } else writer.raw(reader.raw());
  }
  return writer.finish();
}

function fileWithBase(file: Uint8Array, base: number): Uint8Array {
  const reader = new WireReader(file);
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === baseField) return file;
    reader.skip();
  }
  return without(file, baseField).number(baseField, base).finish();
}
