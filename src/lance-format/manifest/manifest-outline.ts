import { decode } from '../message-codec.ts';
import { index, indexSection, manifest } from '../messages.ts';
import { sectionsOf } from './manifest-sections.ts';

/** The parts of a manifest about the version as a whole; skips its fragments, so it costs microseconds. */
export interface ManifestOutline {
  readonly readerFlags: bigint;
  readonly writerFlags: bigint;
  readonly indexNames: readonly string[];
}

/** Throws `MalformedFile`. */
export function outlineOf(file: Buffer): ManifestOutline {
  const { message, indexes } = sectionsOf(file);
  const { readerFlags = 0n, writerFlags = 0n } = decode(manifest, message, ['readerFlags', 'writerFlags']);
  return { readerFlags, writerFlags, indexNames: indexes === undefined ? [] : namesOfIndexes(indexes) };
}

export const namesOfIndexes = (section: Uint8Array): readonly string[] =>
  decode(indexSection, section).indexes?.map((each) => decode(index, each).name ?? '') ?? [];
