import type { BranchName, NamespacePath, TableRef } from '../../kernel/ids.ts';
import type { Principal } from '../../kernel/request-scope.ts';

/** Every action a policy can name, with the scope of the default policies that allows it. */
export const actionScopes = {
  ListNamespaces: 'read',
  DescribeNamespace: 'read',
  NamespaceExists: 'read',
  ListTables: 'read',
  DescribeTable: 'read',
  TableExists: 'read',
  CountTableRows: 'read',
  QueryTable: 'read',
  ExplainTableQueryPlan: 'read',
  AnalyzeTableQueryPlan: 'read',
  ListTableVersions: 'read',
  DescribeTableVersion: 'read',
  GetTableStats: 'read',
  ListTableBranches: 'read',
  ListTableTags: 'read',
  GetTableTagVersion: 'read',
  ListTableIndices: 'read',
  DescribeTableIndexStats: 'read',
  PrewarmTableIndex: 'read',
  AcknowledgeTableChanges: 'read',
  DescribeTransaction: 'read',
  CreateTable: 'write',
  OverwriteTable: 'write',
  MergeInsertIntoTable: 'write',
  DeleteFromTableBySource: 'write',
  UpdateTable: 'write',
  DeleteFromTable: 'write',
  InsertIntoTable: 'write',
  AlterTableAddColumns: 'write',
  AlterTableAlterColumns: 'write',
  AlterTableDropColumns: 'write',
  UpdateFieldMetadata: 'write',
  UpdateTableSchemaMetadata: 'write',
  RestoreTable: 'write',
  CreateTableVersion: 'write',
  DeclareTable: 'write',
  CreateTableIndex: 'write',
  DropTableIndex: 'write',
  CreateTableBranch: 'write',
  DeleteTableBranch: 'write',
  CreateTableTag: 'write',
  UpdateTableTag: 'write',
  DeleteTableTag: 'write',
  CreateNamespace: 'write',
  DropTable: 'admin',
  UndropTable: 'admin',
  PurgeTable: 'admin',
  DeregisterTable: 'admin',
  RenameTable: 'admin',
  CloneTable: 'admin',
  RegisterTable: 'admin',
  DropNamespace: 'admin',
  BatchDeleteTableVersions: 'admin',
  ReadMetrics: 'admin',
  DescribeConfiguration: 'admin',
  MaintainTable: 'admin',
} as const;

export type Action = keyof typeof actionScopes;

/** All that the default policies know. */
export const defaultScopes: ReadonlySet<string> = new Set(
  Object.values(actionScopes).map((group) => `lancegate:${group}`),
);

export type Resource =
  | { readonly kind: 'namespace'; readonly path: NamespacePath }
  | { readonly kind: 'table'; readonly table: TableRef };

export interface AccessRequest {
  readonly principal: Principal;
  readonly action: Action;
  readonly resource: Resource;
  /** undefined is main. */
  readonly branch: BranchName | undefined;
}

/** Decides; never throws for a denied request. A policy that cannot be evaluated denies, and is logged. */
export interface Policy {
  allows(request: AccessRequest): boolean;
  /** The scope that allows the action everywhere. Undefined where an operator's policies decide, which need not ask for scopes. */
  scopeFor(action: Action): string | undefined;
}
