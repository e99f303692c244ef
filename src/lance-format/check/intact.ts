/**
 * Finds whether a file is as its writer left it. A power cut leaves files that were never synced missing, empty, shorter, or of
 * full length with pages of zeros where data should be, since file systems set the length before the data arrives.
 *
 * Lance keeps no checksums, so what can be checked is the size that the manifest gives, how files of the kind begin and end,
 * and, where asked for, that no page is all zeros. That last sign can be wrong (rows may hold 4 KiB of zeros), so it is
 * asked for only of rows that are not acknowledged, and the doubt costs nothing but a retry.
 */
import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import type { StoredFile } from '../manifest/manifest-files.ts';
import { lanceMagic, type Manifest } from '../manifest/parse-manifest.ts';
import { bytesOfBitmap } from '../roaring.ts';

/** File systems write back whole pages. */
const pageBytes = 4096;
/** A multiple of the page, so that windows do not cut pages in two. */
const windowBytes = 256 * pageBytes;
const zeros = Buffer.alloc(pageBytes);
const arrowMagic = 'ARROW1';

export interface Scrutiny {
  /** True if the machine went down after the file was written: then the pages are looked at too. */
  readonly outlivedPowerCut: boolean;
}

/** Says what is wrong with a file, in words for the log; undefined if nothing is. */
export function faultOfFile(file: StoredFile, manifest: Manifest, { outlivedPowerCut }: Scrutiny): string | undefined {
  const sizeBytes = statSync(file.path, { throwIfNoEntry: false })?.size;
  if (sizeBytes === undefined) return 'is missing';
  const expectedBytes = file.kind === 'transaction' ? manifest.transaction?.length : file.sizeBytes;
  if (expectedBytes !== undefined && sizeBytes !== expectedBytes) return `has ${sizeBytes} bytes, not ${expectedBytes}`;
  if (sizeBytes === 0) return 'is empty';
  if (file.kind === 'transaction' && manifest.transaction !== undefined) {
    return readFileSync(file.path).equals(manifest.transaction) ? undefined : 'differs from the manifest';
  }
  const disk = openSync(file.path, 'r');
  try {
    if (!hasShapeOf(disk, file.path, sizeBytes)) return 'does not begin or end as it should';
    return outlivedPowerCut && hasZeroPage(disk) ? 'has a page of zeros' : undefined;
  } finally {
    closeSync(disk);
  }
}

/** Answers false for a deletion file that was cut short. */
export function isWholeDeletionFile(path: string): boolean {
  const disk = openSync(path, 'r');
  try {
    return hasShapeOf(disk, path, fstatSync(disk).size);
  } finally {
    closeSync(disk);
  }
}

function hasShapeOf(disk: number, path: string, sizeBytes: number): boolean {
  const begins = (text: string) => readText(disk, 0, text.length) === text;
  const ends = (text: string) => readText(disk, Math.max(0, sizeBytes - text.length), text.length) === text;
  if (path.endsWith('.lance')) return ends(lanceMagic);
  if (path.endsWith('.arrow')) return sizeBytes > 2 * arrowMagic.length && begins(arrowMagic) && ends(arrowMagic);
  if (path.endsWith('.bin')) return bytesOfBitmap(readFileSync(path)) === sizeBytes;
  return true;
}

function readText(disk: number, position: number, length: number): string {
  const bytes = Buffer.alloc(length);
  readSync(disk, bytes, 0, length, position);
  return bytes.toString('latin1');
}

/** The rest of a page at the end counts as one. */
function hasZeroPage(disk: number): boolean {
  const window = Buffer.alloc(windowBytes);
  for (let position = 0; ; ) {
    const length = readSync(disk, window, 0, windowBytes, position);
    if (length === 0) return false;
    for (let start = 0; start < length; start += pageBytes) {
      const page = window.subarray(start, Math.min(start + pageBytes, length));
      if (page.equals(zeros.subarray(0, page.length))) return true;
    }
    position += length;
  }
}
