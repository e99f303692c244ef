/** What a request names in its target: namespaces, tables, transactions and branches; and the form of the target itself. */
import Type from 'typebox';
import { hasFolderOfDataset, isBelowMain, mostStoredBytes, storedBytes } from '../kernel/branch-names.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, IdempotencyKey, NamespacePath, ObjectName, TableRef, TransactionId } from '../kernel/ids.ts';
import type { QueryOf } from './query-parameters.ts';

/** What file systems and object stores allow for one segment of a path. */
const maxNameBytes = 255;

/** The policy engine's work grows with the cube of the parts: a thousand keep every client waiting for ten seconds. */
export const maxParts = 32;
const tooManyParts = `it has more than ${maxParts} parts`;

const malformed = (id: string, why: string) => {
  const shown = id.length > 100 ? `${id.slice(0, 100)}…` : id;
  return invalidInput(`id ${JSON.stringify(shown)}: ${why}`);
};

/** Every route whose path names an object has it. */
export const delimiterParameter = {
  delimiter: Type.Optional(
    Type.String({ minLength: 1, description: 'What separates the parts of an identifier; `$` if absent.' }),
  ),
};

/** The routes that know branches have it. */
export const branchParameter = {
  branch: Type.Optional(Type.String({ description: 'Absent or `main` is the main branch.' })),
};

/** Absent is `$`. It may have several characters; an empty one is `InvalidInput`. */
export function readDelimiter(query: QueryOf<'delimiter'>): string {
  const delimiter = query.text('delimiter') ?? '$';
  if (delimiter === '') throw invalidInput('delimiter: it must not be empty');
  return delimiter;
}

/** The delimiter alone is the root namespace. `InvalidInput` names the part at fault. */
export function parseNamespacePath(id: string, delimiter: string): NamespacePath {
  if (id === delimiter) return [];
  const names = id.split(delimiter);
  if (names.length > maxParts) throw malformed(id, tooManyParts);
  return names.map((name, index) => readName(id, name, index));
}

/** The last part is the table, what stands before it the namespace; the root namespace is no table. */
export function parseTableRef(id: string, delimiter: string): TableRef {
  const path = parseNamespacePath(id, delimiter);
  const name = path.at(-1);
  if (name === undefined) throw malformed(id, 'it names the root namespace, not a table');
  return { namespace: path.slice(0, -1), name };
}

/** Reads a table by the parts of its name, as JSON bodies have them. */
export function parseTableParts(namespace: readonly string[], name: string): TableRef {
  const parts = [...namespace, name];
  const shown = parts.join('$');
  if (parts.length > maxParts) throw malformed(shown, tooManyParts);
  return {
    namespace: namespace.map((part, index) => readName(shown, part, index)),
    name: readName(shown, name, namespace.length),
  };
}

/**
 * An empty part is refused, not dropped as other services do: `prod$` would otherwise be the table `prod`. Any other
 * name can be stored; it is encoded where it becomes a path.
 */
function readName(id: string, name: string, index: number): ObjectName {
  if (isObjectName(name)) return name;
  throw malformed(id, `part ${index + 1} ${faultOfName(name)}`);
}

const isObjectName = (name: string): name is ObjectName => faultOfName(name) === undefined;

function faultOfName(name: string): string | undefined {
  if (name === '') return 'is empty';
  if (name === '.' || name === '..') return 'must not be "." or ".."';
  if (/\p{Cc}/u.test(name)) return 'holds a control character';
  return Buffer.byteLength(name) > maxNameBytes ? `is longer than ${maxNameBytes} bytes` : undefined;
}

/** Returns undefined for what no namespace can be called. */
export const readDatabaseName = (name: string): ObjectName | undefined => (isObjectName(name) ? name : undefined);

/** Refuses only what can be no id at all. */
export function parseTransactionId(id: string): TransactionId {
  if (isTransactionId(id)) return id;
  throw malformed(id, 'it is not a transaction id');
}

const isTransactionId = (id: string): id is TransactionId =>
  !/\p{Cc}/u.test(id) && Buffer.byteLength(id) <= maxNameBytes;

/** `field` names the parameter in errors. Absent, blank and `main` are main, which is undefined. */
export function parseBranch(text: string | undefined, field = 'branch'): BranchName | undefined {
  if (text === undefined || text.trim() === '' || text === 'main') return undefined;
  return parseBranchName(text, field);
}

/** Takes a branch other than main, by Lance's rules (`check_valid_branch` in refs.rs), and no segment that is `.`. */
export function parseBranchName(text: string, field: string): BranchName {
  if (isBranchName(text)) return text;
  throw invalidInput(`${field}: a branch name ${faultOf(text)}`);
}

const isBranchName = (text: string): text is BranchName => faultOf(text) === undefined;

/** Takes the name of a branch that is to be made: other programs may have made some that this service would not make. */
export function parseNewBranchName(text: string): BranchName {
  const name = parseBranchName(text, 'name');
  const fault = faultOfNew(name);
  if (fault !== undefined) throw invalidInput(`name: a branch name ${fault}`);
  return name;
}

function faultOfNew(name: string): string | undefined {
  if (hasFolderOfDataset(name)) {
    return 'has no part after the first that Lance uses for the files of a branch, such as "data" or "_versions"';
  }
  if (isBelowMain(name)) return 'does not begin with "main/"';
  const bytes = storedBytes(name);
  if (bytes <= mostStoredBytes) return undefined;
  return `takes at most ${mostStoredBytes} bytes on storage, and this takes ${bytes}; "/" takes 5, and other letters than those of ASCII 10 or more`;
}

function faultOf(name: string): string | undefined {
  if (name === '') return 'must not be empty';
  if (name === 'main') return 'other than main is needed here';
  // It is a part of the paths of the branch's files.
  if (Buffer.byteLength(name) > 255) return 'has at most 255 bytes';
  if (name.includes('..')) return 'must not contain ".."';
  if (name.endsWith('.lock')) return 'must not end in ".lock"';
  const segments = name.split('/');
  if (segments.includes('')) return 'has no empty segments: no leading, trailing or double slash';
  if (segments.includes('.')) return 'has no segment "."';
  return /^[\p{Alphabetic}\p{N}._/-]+$/u.test(name) ? undefined : 'holds only letters, digits, ".", "-", "_" and "/"';
}

/**
 * Takes a tag by Lance's rules (`check_valid_tag` in refs.rs), but for letters: the engine stores other letters than these
 * under a name that it does not find again, and then lists no tag at all.
 */
export function parseTagName(text: string): string {
  const fault = faultOfTag(text);
  if (fault !== undefined) throw invalidInput(`tag: ${fault}`);
  return text;
}

function faultOfTag(name: string): string | undefined {
  if (!/^[A-Za-z0-9._-]+$/.test(name))
    return 'it has at least one sign, and only letters from a to z, digits, ".", "-" and "_"';
  if (name.length > 200) return 'it has at most 200 characters';
  if (name.includes('..')) return 'it must not contain ".."';
  if (name.startsWith('.') || name.endsWith('.')) return 'it must not begin or end in "."';
  return name.endsWith('.lock') ? 'it must not end in ".lock"' : undefined;
}

export const idempotencyKeyHeader = 'idempotency-key';

/**
 * The key comes as such, or between quotes as the IETF draft has it (a structured-field string); both mean the same key. A
 * header that is sent twice arrives joined by a comma and a space, and so is refused.
 */
export function parseIdempotencyKey(header: string | undefined): IdempotencyKey | undefined {
  if (header === undefined) return undefined;
  const key = header.startsWith('"') ? unquoted(header) : header;
  if (key !== undefined && isIdempotencyKey(key)) return key;
  throw invalidInput(`${idempotencyKeyHeader}: expected 1 to 255 visible ASCII characters`);
}

const isIdempotencyKey = (key: string): key is IdempotencyKey => key.length <= 255 && /^[\x21-\x7e]+$/.test(key);

/** RFC 9651, 3.3.3; undefined where a quote or backslash stands alone. */
function unquoted(text: string): string | undefined {
  const inside = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1];
  return inside?.replaceAll(/\\(["\\])/g, '$1');
}

interface RequestTarget {
  /** It is still percent-encoded. */
  readonly path: string;
  /** It comes without its `?`. */
  readonly queryString: string;
}

/** Splits at the first `?`. A target in absolute form (RFC 9112, 3.2.2) loses its scheme and host. */
export function splitTarget(url: string): RequestTarget {
  const question = url.indexOf('?');
  const whole = question === -1 ? url : url.slice(0, question);
  const queryString = question === -1 ? '' : url.slice(question + 1);
  return { path: whole.replace(/^https?:\/\/[^/]*/i, '') || '/', queryString };
}

export const hasTrailingSlash = (url: string): boolean => splitTarget(url).path.endsWith('/');

/**
 * Brings the target of a request into the one form that routes have:
 *
 * - Runs of slashes are one: clients join a base that ends in a slash with `/v1`.
 * - A `+` in the path is a space if the request has a `delimiter`, and a plus otherwise: the Lance REST client always
 *   sends one and encodes paths as forms, the LanceDB client sends neither. An escaped `%2B` is always a plus.
 * - With the delimiter `.`, the root namespace is the segment `.`, which URL libraries remove before they send; the two
 *   listings of the root get it back. Where a namespace is called `table`, the listing of its children reads the same as the
 *   listing of the root's tables: it means the latter.
 */
export function routedTarget(url: string): string {
  const { path, queryString } = splitTarget(url);
  const plain = path.replaceAll(/\/{2,}/g, '/');
  const spaced = /(^|&)delimiter(=|&|$)/.test(queryString) ? plain.replaceAll('+', '%20') : plain;
  // Compared undecoded: routing must not fail on a broken escape, whose refusal comes after authentication.
  const rooted = /(^|&)delimiter=(\.|%2E)(&|$)/i.test(queryString)
    ? spaced.replace(/\/v1\/namespace\/(table\/)?list\/?$/, '/v1/namespace/%2E/$1list')
    : spaced;
  return queryString === '' ? rooted : `${rooted}?${queryString}`;
}
