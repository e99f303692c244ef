/** Files that only the service's own user may read, because they hold keys. */
import { randomUUID } from 'node:crypto';
import { type FileHandle, link, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from '../kernel/errors.ts';
import { AccessSetupError } from './challenge.ts';

export const privateMode = 0o600;
const othersBits = 0o077;

/** The file's text, or undefined if there is no file. Refuses a file that others may read or write. */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  await using file = await openIfThere(path);
  if (file === undefined) return undefined;
  requirePrivate(path, (await file.stat()).mode);
  return await file.readFile('utf8');
}

export function requirePrivate(path: string, mode: number): void {
  if ((mode & othersBits) === 0) return;
  const found = (mode & 0o777).toString(8).padStart(4, '0');
  throw new AccessSetupError(`${path} has mode ${found}: other users can get at it. Set it to 0600.`);
}

/**
 * Creates the file, complete and durable, unless another process has created it before: a link fails if its name is taken,
 * and never shows half a file.
 */
export async function createPrivateFile(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeDurably(draft, text);
    await link(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolder(dirname(path));
}

/** Replaces the file atomically and durably: a reader finds the old text or the new one, also after a crash. */
export async function replacePrivateFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeDurably(draft, text);
    await rename(draft, path);
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolder(dirname(path));
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function writeDurably(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', privateMode);
  await file.writeFile(text);
  await file.sync();
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  await folder.sync();
}
