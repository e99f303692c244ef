/**
 * A dataset has one JSON file for each tag, which names a version of main or of a branch. The engine reads and writes the same
 * files.
 */
import { join } from 'node:path';
import { MalformedFile } from '../protobuf.ts';

export interface TagContent {
  readonly branch: string | undefined;
  readonly version: number;
  readonly manifestBytes: number;
  /** A time as in RFC 3339; tags of earlier releases of Lance have none. */
  readonly createdAt: string | undefined;
  readonly updatedAt: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
}

export const tagFolder = (datasetPath: string): string => join(datasetPath, '_refs', 'tags');

const suffix = '.json';

export const tagFile = (datasetPath: string, name: string): string =>
  join(tagFolder(datasetPath), `${encodeURIComponent(name)}${suffix}`);

/** Reads the tag in a file of this name; there is none in a file of another kind, or without a content. Throws `MalformedFile`. */
export function tagIn(file: string, content: string | undefined): (TagContent & { readonly name: string }) | undefined {
  if (content === undefined || !file.endsWith(suffix)) return undefined;
  return { name: nameOf(file), ...parseTag(content) };
}

function nameOf(file: string): string {
  const name = file.slice(0, -suffix.length);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // written by a program that does not encode
  }
}

function parseTag(text: string): TagContent {
  const fields = objectIn(text);
  const { branch = null, version, manifestSize, createdAt, updatedAt, metadata } = fields;
  const isBranch = branch === null || typeof branch === 'string';
  if (!isBranch || !isWhole(version)) throw new MalformedFile('a tag without a version');
  return {
    branch: branch === 'main' ? undefined : (branch ?? undefined),
    version,
    manifestBytes: isWhole(manifestSize) ? manifestSize : 0,
    createdAt: typeof createdAt === 'string' ? createdAt : undefined,
    updatedAt: typeof updatedAt === 'string' ? updatedAt : undefined,
    metadata: textsIn(metadata),
  };
}

const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);

/** Other programs write tags, too: what is no text under a name is left out. */
function textsIn(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter(([, text]) => typeof text === 'string'));
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return { ...value };
  } catch (error) {
    throw new MalformedFile(`a tag is not JSON: ${String(error)}`);
  }
  throw new MalformedFile('a tag is not an object');
}

export const tagText = ({ branch, manifestBytes, ...fields }: TagContent): string =>
  JSON.stringify({ ...fields, branch: branch ?? null, manifestSize: manifestBytes });
