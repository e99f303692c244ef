import { WireReader } from '../wire-reader.ts';
import { messageOf, section } from './manifest-sections.ts';

/** The parts of a manifest about the version as a whole; skips its fragments, so it costs microseconds. */
export interface ManifestOutline {
  readonly readerFlags: bigint;
  readonly writerFlags: bigint;
  readonly indexNames: readonly string[];
}

/** Throws `MalformedFile`. */
export function outlineOf(file: Buffer): ManifestOutline {
  const reader = new WireReader(messageOf(file));
  let readerFlags = 0n;
  let writerFlags = 0n;
  let indexSection: number | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 6) indexSection = reader.number();
    else if (field === 9) readerFlags = reader.uint64();
    else if (field === 10) writerFlags = reader.uint64();
    else reader.skip();
  }
  const indexNames = indexSection === undefined ? [] : namesOfIndexes(section(file, indexSection));
  return { readerFlags, writerFlags, indexNames };
}

export function namesOfIndexes(indexSection: Uint8Array): readonly string[] {
  const reader = new WireReader(indexSection);
  const names: string[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) names.push(nameOfIndex(reader.message()));
    else reader.skip();
  }
  return names;
}

function nameOfIndex(reader: WireReader): string {
  let name = '';
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 3) name = reader.text();
    else reader.skip();
  }
  return name;
}
