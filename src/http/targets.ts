/** What a route's path can name, and what of it the policy is asked about. */
import type { Resource } from '../auth/policy/actions.ts';
import type { NamespacePath, TableRef, TransactionId } from '../kernel/ids.ts';
import { parseNamespacePath, parseTableRef, parseTransactionId } from '../wire/identifiers.ts';

export interface TargetKind<Target> {
  /** `InvalidInput`. */
  parse(id: string, delimiter: string): Target;
  /** Undefined where only the operation can find out which table it is about: it must ask the policy itself. */
  resource(target: Target): Resource | undefined;
  /** The parts that a body's `id` must repeat. */
  parts(target: Target): readonly string[];
}

export const tableTarget: TargetKind<TableRef> = {
  parse: parseTableRef,
  resource: (table) => ({ kind: 'table', table }),
  parts: ({ namespace, name }) => [...namespace, name],
};

export const namespaceTarget: TargetKind<NamespacePath> = {
  parse: parseNamespacePath,
  resource: (path) => ({ kind: 'namespace', path }),
  parts: (path) => path,
};

/** Of paths without an id. */
export const rootTarget: TargetKind<NamespacePath> = { ...namespaceTarget, parse: () => [] };

export const transactionTarget: TargetKind<TransactionId> = {
  parse: parseTransactionId,
  resource: () => undefined,
  parts: (id) => [id],
};
