/** The catalog's refusals in one voice. */
import { LancegateError } from '../../kernel/errors.ts';
import { type NamespacePath, showNamespace, showTable, type TableRef } from '../../kernel/ids.ts';

export const namespaceNotFound = (path: NamespacePath): LancegateError =>
  new LancegateError('NamespaceNotFound', `The namespace ${showNamespace(path)} does not exist.`);

export const namespaceAlreadyExists = (path: NamespacePath): LancegateError =>
  new LancegateError('NamespaceAlreadyExists', `The namespace ${showNamespace(path)} already exists.`);

export const namespaceNotEmpty = (path: NamespacePath): LancegateError =>
  new LancegateError('NamespaceNotEmpty', `The namespace ${showNamespace(path)} is not empty.`);

export const tableNotFound = (ref: TableRef): LancegateError =>
  new LancegateError('TableNotFound', `The table ${showTable(ref)} does not exist.`);

export const tableAlreadyExists = (ref: TableRef): LancegateError =>
  new LancegateError('TableAlreadyExists', `The table ${showTable(ref)} already exists.`);

export const concurrentCreate = (ref: TableRef): LancegateError =>
  new LancegateError('ConcurrentCreate', `Another create of the table ${showTable(ref)} got in between.`);
