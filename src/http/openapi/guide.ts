/**
 * What a person reads of the operations: groups, in the order of a newcomer's day, and of each operation what it does and a body
 * that works when it is sent, on a table `people` with the columns id, name, age and vector (four numbers).
 */

interface OperationGroup {
  readonly name: string;
  readonly description: string;
}

interface Guide {
  readonly group: OperationGroup;
  readonly text: string;
  /** An example of the JSON body; absent where that needs what an earlier answer gave: an id, a version, a location. */
  readonly example?: unknown;
}

const rows: OperationGroup = {
  name: 'Rows',
  description:
    'Create a table, upsert, insert, update and delete rows, and read them: by condition, by vector, by text.',
};
const tables: OperationGroup = {
  name: 'Tables',
  description:
    'What tables there are, what each of them holds, and its name. `people` is a table of the root, `team$people` one of the namespace `team`.',
};
const columns: OperationGroup = {
  name: 'Columns',
  description: 'Add, change and drop the columns of a table that is there.',
};
const indexes: OperationGroup = {
  name: 'Indexes',
  description: 'Indexes make searches fast and change no answer of an exact one. Full-text search needs one.',
};
const versions: OperationGroup = {
  name: 'Versions',
  description:
    'Every write makes a version. Read an older one, go back to one, name one by a tag, or branch off from one.',
};
const namespaces: OperationGroup = { name: 'Namespaces', description: 'Namespaces hold tables and other namespaces.' };
const jobs: OperationGroup = {
  name: 'Jobs and transactions',
  description:
    'Index builds that outlast their request are jobs. Every write has a transaction, which can be asked for later.',
};

const service: OperationGroup = { name: 'Service', description: 'What runs here, for its operators.' };

export const groups: readonly OperationGroup[] = [rows, tables, columns, indexes, versions, namespaces, jobs, service];

const vector = [0.1, 0.2, 0.3, 0.4];
const ofBranch = 'main';
const grace = { id: 2, name: 'Grace', age: 42, vector };

/** The key is the operationId. */
export const guides: Readonly<Record<string, Guide>> = {
  CreateTable: {
    group: rows,
    text: 'The rows of the body become a new table, whole or not at all. `mode=exist_ok` keeps a table that is there, `mode=overwrite` replaces it. Rows come as Arrow, JSON, NDJSON or CSV; those that are no Arrow get the types of their values.',
    example: [{ id: 1, name: 'Ada', age: 36, vector }, grace],
  },
  MergeInsertIntoTable: {
    group: rows,
    text: 'The upsert: `on` names the key columns. By default rows whose key the table has are updated, and all others inserted; the flags choose otherwise. One version, exact counts, no key twice, however many clients write at once. The multipart form carries conditions that are too long for a URL.',
    example: [grace, { id: 4, name: 'Edsger', age: 72, vector }],
  },
  InsertIntoTable: {
    group: rows,
    text: 'Adds rows without looking at keys. `mode=overwrite` replaces all rows.',
    example: [grace],
  },
  UpdateTable: {
    group: rows,
    text: 'Each update is a column and an SQL expression for its new value. Without `predicate` it changes all rows.',
    example: { predicate: 'id = 1', updates: [['age', 'age + 1']] },
  },
  DeleteFromTable: {
    group: rows,
    text: 'Deletes the rows that an SQL condition holds for.',
    example: { predicate: 'age > 120' },
  },
  QueryTable: {
    group: rows,
    text: 'A filter is an SQL condition. With `vector` the nearest rows come first, with `full_text_query` those that match best; `k` is how many. Without either it reads all rows that the filter lets through. `Accept` chooses JSON, NDJSON, CSV or Arrow.',
    example: { filter: 'age >= 18', columns: ['id', 'name', 'age'], k: 10 },
  },
  ReadTableChanges: {
    group: rows,
    text: 'What the table has now against version `after`: each row once, with `_change` (insert, update or delete) and `_version`; of a deleted one the key alone. `on` names the key columns, unless the table declares its primary key. The header `x-lancegate-version` has the version that the answer goes to.',
    example: { after: 1, on: ['id'] },
  },
  AcknowledgeTableChanges: {
    group: rows,
    text: 'The version and all that follow are kept for the consumer, for `--consumer-retention`. Its next request for changes names the consumer in place of `after`.',
    example: { consumer: 'copy', version: 1 },
  },
  CountTableRows: { group: rows, text: 'The answer is the bare number.', example: { predicate: 'age >= 18' } },
  CountTableRowsByGet: { group: rows, text: 'As the POST of this path, of all rows.' },
  ExplainTableQueryPlan: {
    group: rows,
    text: 'Answers the plan of a query as text, and does not run it.',
    example: { query: { vector, k: 3 }, verbose: false },
  },
  AnalyzeTableQueryPlan: {
    group: rows,
    text: 'Runs a query, drops its rows, and answers the plan with the time of each step.',
    example: { vector, k: 3 },
  },
  TransactTable: {
    group: rows,
    text: 'Parts of the form describe operations, and other parts hold the rows that they name. All of them become one version.',
  },

  DescribeTable: {
    group: tables,
    text: 'The newest version, or the one that `version` or `tag` names.',
    example: { with_table_uri: false },
  },
  ListTables: {
    group: tables,
    text: 'The names of the tables directly in a namespace. The root is the delimiter, `$`.',
  },
  ListAllTables: { group: tables, text: 'The tables of all namespaces, in pages.' },
  TableExists: { group: tables, text: 'Answers nothing where it exists, and 404 where it does not.', example: {} },
  GetTableStats: { group: tables, text: 'Rows, bytes, fragments and indexes of the newest version.', example: {} },
  GetTableStatsByGet: { group: tables, text: 'As the POST of this path.' },
  DeclareTable: {
    group: tables,
    text: 'The name is taken, and the first rows that are written make the table.',
    example: { properties: { owner: 'team-a' } },
  },
  RenameTable: {
    group: tables,
    text: 'Files stay where they are. `new_namespace_id` moves the table to another namespace.',
    example: { new_table_name: 'persons' },
  },
  CloneTable: {
    group: tables,
    text: 'A shallow clone shares the data files of its source. `source_location` is the `location` that describing the source answers.',
  },
  RegisterTable: {
    group: tables,
    text: 'The location is below the storage root. Nothing is copied, and the table is checked first.',
  },
  DeregisterTable: { group: tables, text: 'The name is free again, and the files stay where they are.', example: {} },
  DropTable: {
    group: tables,
    text: 'The table is gone for every reader at once, with its versions, tags and branches, and the name is free. It is in the trash for `--drop-retention`.',
    example: {},
  },
  ListDroppedTables: {
    group: tables,
    text: 'The trash of a namespace, the newest first. The root is the delimiter, `$`.',
  },
  UndropTable: {
    group: tables,
    text: 'The one that was dropped last, or that `dropped_id` names, with its versions, tags and branches; under another name where `new_table_name` says one.',
    example: {},
  },
  PurgeTable: {
    group: tables,
    text: 'All that was dropped under this name, or what `dropped_id` names. It cannot be brought back.',
    example: {},
  },
  MaintainTable: {
    group: tables,
    text: 'The service does this by itself. By hand it is done now, and the answer says what was done.',
    example: {},
  },
  UpdateTableSchemaMetadata: {
    group: tables,
    text: 'The body is the new metadata: texts by name.',
    example: { owner: 'team-a' },
  },

  AlterTableAddColumns: {
    group: columns,
    text: 'Each column is an SQL expression over the columns that are there. The columns of an Arrow schema are added with NULL in every row.',
    example: { new_columns: [{ name: 'age_in_months', expression: 'age * 12' }] },
  },
  AlterTableAlterColumns: {
    group: columns,
    text: 'Renames a column, casts it to another type, or allows NULL in it.',
    example: { alterations: [{ path: 'age_in_months', data_type: { type: 'int32' } }] },
  },
  AlterTableDropColumns: { group: columns, text: 'Older versions keep them.', example: { columns: ['age_in_months'] } },
  UpdateFieldMetadata: {
    group: columns,
    text: 'Sets the metadata of columns: texts by name. NULL takes one away.',
    example: { updates: [{ path: 'age', metadata: { unit: 'years' } }] },
  },

  CreateTableIndex: {
    group: indexes,
    text: '`index_type` is `IVF_PQ`, `IVF_HNSW_SQ` and their relatives for vectors, `FTS` for text, `BTREE`, `BITMAP` and `LABEL_LIST` for values. A build that takes long goes on as a job.',
    example: { column: 'age', index_type: 'BTREE' },
  },
  CreateTableScalarIndex: {
    group: indexes,
    text: 'As create_index, for values and text.',
    example: { column: 'name', index_type: 'FTS', replace: true },
  },
  ListTableIndices: { group: indexes, text: 'With the columns and type of each.', example: {} },
  DescribeTableIndexStats: {
    group: indexes,
    text: 'Rows that it covers, and rows that it does not cover yet.',
    example: {},
  },
  PrewarmTableIndex: { group: indexes, text: 'The first searches by it then wait for no file.', example: {} },
  DropTableIndex: {
    group: indexes,
    text: 'Searches go on without it. Full-text search of the column ends.',
    example: {},
  },

  ListTableVersions: {
    group: versions,
    text: 'Those that can still be read.',
    example: { descending: true, limit: 10 },
  },
  DescribeTableVersion: { group: versions, text: 'Its time, and where its manifest lies.', example: { version: 1 } },
  RestoreTable: {
    group: versions,
    text: 'A new version that holds what the older one held. None is lost.',
    example: { version: 1 },
  },
  CreateTableTag: { group: versions, text: 'A version with a tag is kept.', example: { tag: 'first', version: 1 } },
  UpdateTableTag: {
    group: versions,
    text: 'The version that the tag named before is no longer kept by it.',
    example: { tag: 'first', version: 2 },
  },
  GetTableTagVersion: { group: versions, text: 'Answers 404 where there is no such tag.', example: { tag: 'first' } },
  ListTableTags: { group: versions, text: 'With the version of each.', example: {} },
  ListTableTagsByGet: { group: versions, text: 'As the POST of this path.' },
  DeleteTableTag: {
    group: versions,
    text: 'The version itself stays until its retention ends.',
    example: { tag: 'first' },
  },
  CreateTableBranch: {
    group: versions,
    text: 'A branch begins as the version that it is made from, and then has writes of its own. It shares files with its table.',
    example: { name: 'dev', from_branch: ofBranch },
  },
  ListTableBranches: { group: versions, text: 'With the branch and version that each was made from.', example: {} },
  DeleteTableBranch: {
    group: versions,
    text: 'Its writes are gone. The table stays as it is.',
    example: { name: 'dev' },
  },
  BatchDeleteTableVersions: {
    group: versions,
    text: 'Versions that a tag or branch needs, and the newest one, stay.',
    example: { ranges: [{ start_version: 1, end_version: 1 }] },
  },
  CreateTableVersion: {
    group: versions,
    text: 'For programs of Lance that write files themselves and let this service commit them. The service opens and counts the version before it publishes it.',
  },
  BatchCreateTableVersions: { group: versions, text: 'For programs of Lance, as version/create.' },

  CreateNamespace: { group: namespaces, text: 'Its parent must exist.', example: { properties: { owner: 'team-a' } } },
  DescribeNamespace: { group: namespaces, text: 'Answers 404 where there is none.', example: {} },
  NamespaceExists: {
    group: namespaces,
    text: 'Answers nothing where it exists, and 404 where it does not.',
    example: {},
  },
  ListNamespaces: { group: namespaces, text: 'The names directly in a namespace. The root is the delimiter, `$`.' },
  DropNamespace: {
    group: namespaces,
    text: '`behavior: Cascade` drops what it holds as well; without it a namespace must be empty.',
    example: { behavior: 'Restrict' },
  },

  ListJobs: { group: jobs, text: 'Of the tables that the caller may see.', example: {} },
  DescribeJob: { group: jobs, text: '`job_id` is what create_index answered.' },
  CancelJob: { group: jobs, text: 'What it has built is thrown away.' },
  DescribeTransaction: {
    group: jobs,
    text: 'The id is the `transaction_id` of an answer. It says whether the write was committed, for as long as records are kept.',
  },

  DescribeConfiguration: {
    group: service,
    text: 'Of the replica that answers. Secrets are masked. `lancegate config --url` prints it.',
  },
};
