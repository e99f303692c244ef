/** Identifiers of namespaces and tables: the decoded `id` of a path, split by the request's delimiter. */
import { invalidInput } from '../kernel/errors.ts';
import type { NamespacePath, ObjectName, TableRef, TransactionId } from '../kernel/ids.ts';
import type { QueryParameters } from './query-parameters.ts';

/** What file systems and object stores allow for one segment of a path. */
const maxNameBytes = 255;

const malformed = (id: string, why: string) => {
  const shown = id.length > 100 ? `${id.slice(0, 100)}…` : id;
  return invalidInput(`id ${JSON.stringify(shown)}: ${why}`);
};

/** Absent is `$`. It may have several characters; an empty one is `InvalidInput`. */
export function readDelimiter(query: QueryParameters): string {
  const delimiter = query.text('delimiter') ?? '$';
  if (delimiter === '') throw invalidInput('delimiter: it must not be empty');
  return delimiter;
}

/** The delimiter alone is the root namespace. `InvalidInput` names the part at fault. */
export function parseNamespacePath(id: string, delimiter: string): NamespacePath {
  if (id === delimiter) return [];
  const names = id.split(delimiter);
  // The policy engine's work grows with the cube of the parts: a thousand keep every client waiting for ten seconds.
  if (names.length > 32) throw malformed(id, 'it has more than 32 parts');
  return names.map((name, index) => readName(id, name, index));
}

/** The last part is the table, what stands before it the namespace; the root namespace is no table. */
export function parseTableRef(id: string, delimiter: string): TableRef {
  const path = parseNamespacePath(id, delimiter);
  const name = path.at(-1);
  if (name === undefined) throw malformed(id, 'it names the root namespace, not a table');
  return { namespace: path.slice(0, -1), name };
}

/**
 * An empty part is refused, not dropped as other services do: `prod$` would otherwise be the table `prod`. Any other
 * name can be stored; it is encoded where it becomes a path.
 */
function readName(id: string, name: string, index: number): ObjectName {
  const part = `part ${index + 1}`;
  if (name === '') throw malformed(id, `${part} is empty`);
  if (name === '.' || name === '..') throw malformed(id, `${part} must not be "." or ".."`);
  if (/\p{Cc}/u.test(name)) throw malformed(id, `${part} holds a control character`);
  if (Buffer.byteLength(name) > maxNameBytes) throw malformed(id, `${part} is longer than ${maxNameBytes} bytes`);
  return name as ObjectName;
}

/** Whether one exists, the catalog knows; here only what can be no id at all is refused. */
export function parseTransactionId(id: string): TransactionId {
  if (/\p{Cc}/u.test(id) || Buffer.byteLength(id) > maxNameBytes) throw malformed(id, 'it is not a transaction id');
  return id as TransactionId;
}
