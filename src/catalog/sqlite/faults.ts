/** Only this file reads SQLite's error codes, and those of its files; the texts are never looked at. */
import { codeOf, LancegateError, storageFull } from '../../kernel/errors.ts';

/** https://www.sqlite.org/rescode.html has these; the low byte is the primary code. */
const primaryCodes = { busy: 5, readOnly: 8, ioError: 10, corrupt: 11, full: 13, cannotOpen: 14, notADatabase: 26 };

const meanings: ReadonlyMap<number, string> = new Map([
  [primaryCodes.busy, 'another process holds the catalog'],
  [primaryCodes.readOnly, 'the catalog is read-only'],
  [primaryCodes.ioError, 'the disk failed'],
  [primaryCodes.corrupt, 'the catalog is damaged'],
  [primaryCodes.full, 'the disk is full'],
  [primaryCodes.cannotOpen, 'a file of the catalog cannot be opened'],
  [primaryCodes.notADatabase, 'the file is not a catalog'],
]);

/** Returns the extended result code, or undefined for an error that is not SQLite's. */
function resultCodeOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode : undefined;
}

const primaryCodeOf = (code: number): number => code & 0xff;

export function isHeldByAnother(error: unknown): boolean {
  const code = resultCodeOf(error);
  return code !== undefined && primaryCodeOf(code) === primaryCodes.busy;
}

/** Words for the operator say what happened; undefined where only the cause can tell. */
export function faultOf(error: unknown): string | undefined {
  const code = resultCodeOf(error);
  return code === undefined ? undefined : meanings.get(primaryCodeOf(code));
}

/** A transaction that finds the disk full is undone as a whole; any other failure leaves open what it was. */
export function refusalOf(error: unknown): LancegateError {
  const code = resultCodeOf(error);
  const internal = { catalog: faultOf(error) ?? 'unexpected failure', sqliteCode: code };
  if (code !== undefined && primaryCodeOf(code) === primaryCodes.full) return storageFull(error, internal);
  return new LancegateError('Internal', 'The catalog failed.', { cause: error, internal });
}

/** `error` is one of `node:fs`, of a file of the catalog that this service writes itself. */
export function fullDiskOf(error: unknown): LancegateError {
  const code = codeOf(error);
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  const internal = { catalog: isFull ? 'the disk is full' : 'unexpected failure' };
  if (isFull) return storageFull(error, internal);
  return new LancegateError('Internal', 'The catalog failed.', { cause: error, internal });
}
