const { globSync } = require('node:fs');
const { join, sep } = require('node:path');

/**
 * The arrow of the house: each room may import itself and what lies below it. `test/system/boundaries.test.ts` plants a
 * violation and requires that this file finds it.
 */
const mayImport = {
  kernel: [],
  memory: ['kernel'],
  'lance-format': [],
  sql: ['kernel'],
  arrow: ['kernel', 'memory'],
  keys: ['kernel', 'arrow'],
  telemetry: ['kernel'],
  engine: ['kernel', 'arrow', 'keys', 'lance-format'],
  catalog: ['kernel'],
  rows: ['kernel', 'arrow'],
  query: ['kernel', 'memory', 'arrow', 'keys', 'engine', 'rows', 'sql', 'telemetry'],
  table: ['kernel', 'memory', 'arrow', 'keys', 'engine', 'catalog', 'telemetry'],
  ownership: ['kernel', 'catalog', 'table/table-owners.ts', 'telemetry'],
  idempotency: ['kernel', 'engine', 'catalog', 'table', 'telemetry'],
  write: ['kernel', 'arrow', 'engine', 'catalog', 'table', 'telemetry', 'idempotency'],
  merge: [
    'change',
    ...['kernel', 'memory', 'arrow', 'keys', 'engine', 'catalog', 'table', 'create', 'write', 'telemetry'],
    'idempotency',
  ],
  insert: [
    'merge/merge-command.ts',
    'merge/standing-rules.ts',
    'change',
    'kernel',
    'arrow',
    'engine',
    'catalog',
    'table',
    'create',
    'write',
    'telemetry',
    'idempotency',
  ],
  change: ['kernel', 'arrow', 'engine', 'catalog', 'table', 'write', 'telemetry', 'idempotency'],
  indexing: ['kernel', 'arrow', 'engine', 'catalog', 'table', 'write', 'telemetry'],
  create: [...['kernel', 'memory', 'arrow', 'keys', 'engine', 'catalog', 'table', 'telemetry'], 'idempotency'],
  maintenance: ['kernel', 'memory', 'arrow', 'engine', 'catalog', 'table', 'write', 'telemetry'],
  wire: [
    ...['kernel', 'arrow', 'sql', 'engine/port/index-spec.ts', 'engine/port/query-spec.ts', 'rows'],
    'merge/merge-command.ts',
    'table/standing-rules.ts',
  ],
  auth: ['kernel', 'telemetry', 'wire', 'catalog/credentials.ts'],
  endpoint: ['kernel', 'memory', 'arrow', 'rows', 'idempotency', 'wire', 'auth', 'telemetry'],
  operations: [
    ...['kernel', 'memory', 'arrow', 'keys', 'engine', 'catalog', 'query', 'table', 'write', 'merge', 'insert'],
    ...['change', 'create', 'idempotency', 'indexing', 'maintenance', 'rows', 'sql', 'telemetry'],
    ...['wire', 'auth', 'endpoint'],
  ],
  http: [
    ...['kernel', 'memory', 'arrow', 'rows', 'wire', 'auth', 'endpoint', 'operations', 'telemetry'],
    'table/table-owners.ts',
  ],
  config: ['kernel', 'memory'],
  load: ['kernel', 'arrow', 'rows'],
  cli: [
    ...['kernel', 'arrow', 'rows', 'load', 'wire', 'auth', 'telemetry', 'config'],
    ...['catalog/credentials.ts', 'table/standing-rules.ts'],
  ],
};

const rooms = Object.keys(mayImport);
const roomOf = (target) => target.split('/')[0];
const mutual = rooms.flatMap((room) =>
  mayImport[room].map(roomOf).filter((other) => mayImport[other].some((target) => roomOf(target) === room)),
);
if (mutual.length > 0) throw new Error(`rooms may not import each other: ${mutual.join(', ')}`);

/** A file by its name, a room by all that is in it. */
const pathOf = (target) => (target.endsWith('.ts') ? `^src/${target}$` : `^src/${target}/`);

const roomRules = rooms.map((room) => ({
  name: `${room}-imports-against-the-arrow`,
  severity: 'error',
  from: { path: `^src/${room}/` },
  to: { path: '^src/', pathNot: [`^src/${room}/`, ...mayImport[room].map(pathOf)] },
}));

/**
 * The sub-rooms of a room, the lowest first: what is in one reaches nothing of those after it, by whatever imports lie
 * between. So there is no cycle between them, also none through the files that stand in the room itself.
 */
const orderOfSubRooms = {
  'lance-format': ['manifest', 'transaction', 'deletion', 'check', 'shadow'],
  engine: ['port', 'lance'],
  'engine/lance': ['native', 'store', 'live-rows', 'head', 'durability', 'commit', 'storage', 'shadow', 'adapter'],
  arrow: ['format', 'schema', 'column', 'stream'],
  catalog: ['migrations', 'queries', 'sqlite', 'postgres'],
  operations: ['indexes', 'tags', 'branches', 'tables', 'namespaces', 'rows', 'columns', 'transact'],
  merge: ['change', 'key-index', 'strategy'],
  maintenance: ['act'],
  auth: ['tokens', 'policy'],
  endpoint: ['body'],
  http: ['body', 'openapi', 'forwarding', 'admission', 'routes'],
  'http/routes': ['operators'],
  rows: ['answers', 'bodies'],
  load: ['parquet'],
  cli: ['remote', 'doctor'],
};

/** Rules that name no folder find nothing in it. */
const declared = new Set([
  ...rooms,
  ...Object.entries(orderOfSubRooms).flatMap(([room, names]) => names.map((name) => `${room}/${name}`)),
]);
const undeclared = globSync('src/**/', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) =>
    join(entry.parentPath, entry.name)
      .split(sep)
      .join('/')
      .replace(/^.*?src\/?/, ''),
  )
  .filter((folder) => folder !== '' && !declared.has(folder));
if (undeclared.length > 0) throw new Error(`.dependency-cruiser.cjs knows nothing of src/${undeclared.join(', src/')}`);

const subRoomRules = Object.entries(orderOfSubRooms).flatMap(([room, names]) =>
  names.slice(0, -1).map((name, index) => ({
    name: `${room}/${name}-reaches-a-higher-sub-room`,
    severity: 'error',
    from: { path: `^src/${room}/${name}/` },
    to: { path: `^src/${room}/(${names.slice(index + 1).join('|')})/`, reachable: true },
  })),
);

/** A vendor has one room (and the tests). */
const vendorRule = (name, vendor, allowed) => ({
  name,
  severity: 'error',
  from: { path: '^src/', pathNot: allowed },
  to: { path: vendor },
});

module.exports = {
  forbidden: [
    ...roomRules,
    ...subRoomRules,
    {
      name: 'lance-format-imports-node-only',
      severity: 'error',
      from: { path: '^src/lance-format/' },
      to: { path: 'node_modules/' },
    },
    {
      name: 'lance-is-behind-its-port',
      severity: 'error',
      from: {
        path: '^src/',
        pathNot: ['^src/engine/lance/', '^src/(service|reader|service-probes)[.]ts$'],
      },
      to: { path: '^src/engine/lance/' },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'system-tests-are-black-box', severity: 'error', from: { path: '^test/system/' }, to: { path: '^src/' } },
    vendorRule('object-stores-only-in-their-adapters', 'node_modules/(@aws-sdk|@azure|google-auth-library)/', [
      '^src/engine/lance/store/',
    ]),
    vendorRule('lance-only-in-its-adapter', 'node_modules/@lancedb', ['^src/engine/lance/']),
    vendorRule('fastify-only-in-http', 'node_modules/(fastify|@fastify)/', ['^src/http/']),
    vendorRule('kysely-only-in-catalog', 'node_modules/kysely/', ['^src/catalog/']),
    vendorRule('pg-only-in-the-postgres-catalog', 'node_modules/(pg|pg-[^/]+)/', ['^src/catalog/postgres/']),
    vendorRule('cedar-only-in-auth', 'node_modules/@cedar-policy/', ['^src/auth/']),
    vendorRule('jose-only-in-auth', 'node_modules/(jose|oauth4webapi)/', ['^src/auth/']),
    vendorRule('commander-only-in-cli', 'node_modules/commander/', ['^src/cli/']),
    vendorRule('pino-only-in-telemetry', 'node_modules/(pino|prom-client)/', ['^src/telemetry/']),
    {
      name: 'kernel-does-no-io',
      severity: 'error',
      from: { path: '^src/kernel/' },
      to: { dependencyTypes: ['core', 'npm'], pathNot: 'node_modules/lru-cache/' },
    },
    { name: 'nothing-unresolved', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'types'],
      extensions: ['.ts', '.js', '.mjs', '.cjs'],
    },
  },
};
