/**
 * The arrow of the house: each room may import itself and what lies below it. `test/system/boundaries.test.ts` plants a
 * violation and requires that this file finds it.
 */
const rooms = [
  'kernel',
  'sql',
  'arrow',
  'engine',
  'catalog',
  'query',
  'table',
  'maintenance',
  'operations',
  'wire',
  'auth',
  'http',
  'telemetry',
  'config',
  'cli',
];

const mayImport = {
  kernel: [],
  sql: ['kernel'],
  arrow: ['kernel'],
  telemetry: ['kernel'],
  engine: ['kernel', 'arrow'],
  catalog: ['kernel'],
  query: ['kernel', 'arrow', 'engine', 'telemetry'],
  table: ['kernel', 'arrow', 'engine', 'catalog', 'telemetry'],
  maintenance: ['kernel', 'arrow', 'engine', 'catalog', 'table', 'telemetry'],
  operations: ['kernel', 'arrow', 'engine', 'catalog', 'query', 'table', 'maintenance', 'telemetry'],
  wire: ['kernel', 'arrow', 'sql', 'operations'],
  auth: ['kernel', 'telemetry', 'wire'],
  http: ['kernel', 'arrow', 'operations', 'wire', 'auth', 'telemetry'],
  config: ['kernel'],
  cli: ['kernel', 'arrow', 'wire', 'auth', 'telemetry', 'config'],
};

const roomRules = rooms.map((room) => ({
  name: `${room}-imports-against-the-arrow`,
  severity: 'error',
  from: { path: `^src/${room}/` },
  to: { path: '^src/', pathNot: [`^src/${room}/`, ...mayImport[room].map((other) => `^src/${other}/`)] },
}));

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
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'system-tests-are-black-box', severity: 'error', from: { path: '^test/system/' }, to: { path: '^src/' } },
    vendorRule('lance-only-in-its-adapter', 'node_modules/@lancedb', ['^src/engine/lance/']),
    vendorRule('fastify-only-in-http', 'node_modules/(fastify|@fastify)/', ['^src/http/']),
    vendorRule('kysely-only-in-catalog', 'node_modules/kysely/', ['^src/catalog/']),
    vendorRule('cedar-only-in-auth', 'node_modules/@cedar-policy/', ['^src/auth/']),
    vendorRule('jose-only-in-auth', 'node_modules/(jose|oauth4webapi)/', ['^src/auth/']),
    vendorRule('pino-only-in-telemetry', 'node_modules/(pino|prom-client)/', ['^src/telemetry/']),
    {
      name: 'kernel-does-no-io',
      severity: 'error',
      from: { path: '^src/kernel/' },
      to: { dependencyTypes: ['core', 'npm'] },
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
