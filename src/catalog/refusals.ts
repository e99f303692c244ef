/** What the catalog refuses, and what its users refuse for the same reason before they ask it. LanceDB's clients look for `already exists`. */
import { LancegateError } from '../kernel/errors.ts';
import { type NamespacePath, showNamespace, showTable, type TableRef } from '../kernel/ids.ts';

export const namespaceNotFound = (path: NamespacePath): LancegateError =>
  new LancegateError('NamespaceNotFound', `namespace '${showNamespace(path)}' does not exist`);

export const namespaceAlreadyExists = (path: NamespacePath): LancegateError =>
  new LancegateError('NamespaceAlreadyExists', `namespace '${showNamespace(path)}' already exists`);

export const namespaceNotEmpty = (path: NamespacePath): LancegateError =>
  new LancegateError('NamespaceNotEmpty', `namespace '${showNamespace(path)}' is not empty`);

export const tableNotFound = (ref: TableRef): LancegateError =>
  new LancegateError('TableNotFound', `table '${showTable(ref)}' does not exist`);

export const notInTrash = (ref: TableRef): LancegateError =>
  new LancegateError('TableNotFound', `the trash has no such table '${showTable(ref)}'`);

export const tableAlreadyExists = (ref: TableRef): LancegateError =>
  new LancegateError('TableAlreadyExists', `table '${showTable(ref)}' already exists`);

export const concurrentCreate = (ref: TableRef): LancegateError =>
  new LancegateError('ConcurrentCreate', `another create of table '${showTable(ref)}' got in between`);

export const writerMoved = (ref: TableRef): LancegateError =>
  new LancegateError('WriterMoved', `another replica writes to table '${showTable(ref)}' by now; nothing was written`, {
    retryAfterSeconds: 1,
  });

export const keyTaken = (): LancegateError =>
  new LancegateError(
    'ConcurrentModification',
    'another attempt at the request with this Idempotency-Key is under way or was done; nothing was written by this one',
    { retryAfterSeconds: 1 },
  );
