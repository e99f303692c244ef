import type { Catalog } from '../../catalog/port.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { type NamespacePath, type Properties, showNamespace } from '../../kernel/ids.ts';
import { findNamespace } from './describe-namespace.ts';

interface CreateNamespaceCommand {
  readonly namespace: NamespacePath;
  /** `exist_ok` answers the existing properties; `overwrite` replaces them and keeps what is inside. */
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
  readonly properties: Properties;
}

export const createNamespace =
  ({ catalog }: { catalog: Catalog }) =>
  async ({ namespace, mode, properties }: CreateNamespaceCommand): Promise<Properties> => {
    const existing = await catalog.findNamespace(namespace);
    if (existing === undefined) return createOrFind(catalog, namespace, mode === 'create', properties);
    switch (mode) {
      case 'create':
        throw new LancegateError('NamespaceAlreadyExists', `namespace '${showNamespace(namespace)}' already exists`);
      case 'exist_ok':
        return existing.properties;
      case 'overwrite':
        return (await catalog.updateNamespace(namespace, properties)).properties;
    }
  };

/** Of two that create one namespace at once, the later finds it there; only mode `create` minds. */
async function createOrFind(
  catalog: Catalog,
  namespace: NamespacePath,
  mustBeNew: boolean,
  properties: Properties,
): Promise<Properties> {
  try {
    return (await catalog.createNamespace(namespace, properties)).properties;
  } catch (error) {
    const lostRace = error instanceof LancegateError && error.kind === 'NamespaceAlreadyExists';
    if (mustBeNew || !lostRace) throw error;
    return (await findNamespace(catalog, namespace)).properties;
  }
}
