import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseArguments } from '#src/config/arguments.ts';
import { effectiveSettings, showConfig } from '#src/config/describe-config.ts';
import { chunkBytesUnder } from '#src/config/memory-plan.ts';
import { type ConfigReading, readConfig } from '#src/config/read-config.ts';
import { settings } from '#src/config/settings.ts';

const MiB = 2 ** 20;
const GiB = 2 ** 30;

interface Given {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  readonly machineMemoryBytes?: number;
  readonly openFiles?: number;
}

function read({
  args = [],
  env = {},
  files = {},
  machineMemoryBytes = 64 * GiB,
  openFiles = 65_536,
}: Given): ConfigReading {
  const parsed = parseArguments(args, Object.values(settings));
  const machine = { memoryBytes: machineMemoryBytes, openFiles };
  const readTextFile = (path: string): string => {
    if (!Object.hasOwn(files, path)) throw new Error(`no such file ${path}`);
    return files[path]!;
  };
  const reading = readConfig({ flags: parsed.flags, env, cwd: '/home/ada', machine, readTextFile });
  return { ...reading, problems: [...parsed.problems, ...reading.problems] };
}

function valuesOf(given: Given): ConfigReading['values'] {
  const { values, problems } = read(given);
  assert.deepEqual(problems, []);
  return values;
}

test('without flags and variables the defaults are in effect, and they contradict nothing', () => {
  const values = valuesOf({});
  assert.equal(values.dataFolder, '/home/ada/lancegate-data');
  assert.equal(values.storageRoot, '/home/ada/lancegate-data/tables');
  assert.equal(values.host, '127.0.0.1');
  assert.equal(values.port, 2333);
  assert.equal(values.basePath, '');
  assert.equal(values.ownIssuer, true);
  assert.equal(values.oidcIssuers, undefined);
  assert.equal(values.maxMergeBytes, 256 * 2 ** 20);
  assert.equal(values.defaultTimeoutMs, 300_000);
});

test('a value may begin with a minus sign and a digit, and is one value', () => {
  const { flags, problems } = parseArguments(
    ['--port', '-7,3', '--host', '-.5', '--no-own-issuer'],
    Object.values(settings),
  );
  assert.deepEqual(problems, []);
  assert.deepEqual(
    [flags.get('port')?.text, flags.get('host')?.text, flags.get('own-issuer')?.text],
    ['-7,3', '-.5', 'false'],
  );
  assert.match(read({ args: ['--port', '-7'] }).problems.join(), /^--port: "-7" is not accepted/);
  assert.deepEqual(read({ args: ['--port', '-x'] }).problems.length, 2, 'anything else is a flag');
});

test('the own issuer is off where another one is set, unless it is asked for (P9)', () => {
  const oidc = ['--oidc-issuer=https://a.example', '--oidc-audience=x'];
  const introspection = [
    ...['--introspection-issuer=https://a.example', '--introspection-client-id=x'],
    '--introspection-audience=z',
  ];
  const env = { LANCEGATE_INTROSPECTION_CLIENT_SECRET: 'y' };
  assert.equal(valuesOf({ args: oidc }).ownIssuer, false);
  assert.equal(valuesOf({ args: introspection, env }).ownIssuer, false);
  assert.equal(valuesOf({ args: [...oidc, '--own-issuer'] }).ownIssuer, true);
  assert.equal(valuesOf({ args: oidc, env: { LANCEGATE_OWN_ISSUER: 'true' } }).ownIssuer, true);
  assert.equal(valuesOf({ args: ['--no-own-issuer'] }).ownIssuer, false);
});

test('every default is a text that its own type reads', () => {
  for (const setting of Object.values(settings)) {
    if (setting.default === undefined) continue;
    assert.notEqual(setting.type.parse(setting.default, '/'), undefined, setting.flag);
  }
});

test('a flag wins over the environment, and the environment over the default', () => {
  const env = { LANCEGATE_PORT: '1111', LANCEGATE_HOST: '::1' };
  const { values, sources } = read({ args: ['--port', '2222'], env });
  assert.deepEqual([values.port, sources.port], [2222, '--port']);
  assert.deepEqual([values.host, sources.host], ['::1', 'LANCEGATE_HOST']);
  assert.deepEqual([values.logLevel, sources.logLevel], ['info', 'default']);
});

test('the storage root follows the data folder until it is set', () => {
  assert.equal(valuesOf({ args: ['--data', 'd'] }).storageRoot, '/home/ada/d/tables');
  assert.equal(valuesOf({ env: { LANCEGATE_DATA: '/srv/$&' } }).storageRoot, '/srv/$&/tables');
  assert.equal(valuesOf({ args: ['--data=d', '--storage-root=s3://bucket/x/'] }).storageRoot, 's3://bucket/x');
});

test('an empty variable counts as absent', () => {
  assert.equal(valuesOf({ env: { LANCEGATE_PORT: '' } }).port, 2333);
});

test('units, lists, switches and maps are read as the documentation says', () => {
  const values = valuesOf({
    args: [
      ...['--max-merge-size=64KiB', '--memory-limit', '6000MB', '--body-memory=1073741824'],
      ...['--drain-timeout=1h30m', '--default-timeout', '500ms', '--no-own-issuer'],
      ...['--oidc-issuer', 'https://a.example/', '--oidc-issuer=https://b.example', '--oidc-audience=x, y'],
      ...['--base-path', '/lance/', '--storage-options', '{"aws_region":"eu-west-1"}'],
    ],
  });
  assert.equal(values.maxMergeBytes, 65_536);
  assert.equal(values.memoryLimitBytes, 6_000_000_000);
  assert.equal(values.bodyMemoryBytes, 2 ** 30);
  assert.equal(values.drainTimeoutMs, 5_400_000);
  assert.equal(values.defaultTimeoutMs, 500);
  assert.equal(values.ownIssuer, false);
  assert.deepEqual(values.oidcIssuers, ['https://a.example/', 'https://b.example']);
  assert.deepEqual(values.oidcAudiences, ['x', 'y']);
  assert.equal(values.basePath, '/lance');
  assert.deepEqual(values.storageOptions, { aws_region: 'eu-west-1' });
});

const sizesOf = (values: ConfigReading['values']) =>
  [values.memoryLimitBytes, values.bodyMemoryBytes, values.maxMergeBytes, chunkBytesUnder(values)].map(
    (size) => size / MiB,
  );

test('where memory is plenty the limit is fixed, and where it is not, a part of what is there (P7)', () => {
  assert.deepEqual(sizesOf(valuesOf({ machineMemoryBytes: 64 * GiB })), [5120, 1024, 256, 16]);
  assert.deepEqual(sizesOf(valuesOf({ machineMemoryBytes: 2 * GiB })), [768, 94, 23, 5]);
  assert.deepEqual(sizesOf(valuesOf({ machineMemoryBytes: 256 * MiB })), [640, 64, 16, 4]);
});

test('the service and its readers have three quarters of a machine together, and each reader enough to run (P7, P12)', () => {
  const readersOf = (machineMemoryBytes: number, args: readonly string[] = []) => {
    const { memoryLimitBytes, readers, readerMemoryBytes } = valuesOf({ machineMemoryBytes, args });
    return [memoryLimitBytes / MiB, readers, readerMemoryBytes / MiB];
  };
  assert.deepEqual(readersOf(64 * GiB), [5120, 4, 512]);
  assert.deepEqual(readersOf(4 * GiB), [1844, 4, 307]);
  assert.deepEqual(readersOf(256 * MiB), [640, 4, 192]);
  assert.deepEqual(readersOf(4 * GiB, ['--readers=2', '--reader-memory=256MiB']), [2560, 2, 256]);
});

test('what was set is kept, and only what was not is made to fit under a memory limit (P7)', () => {
  assert.deepEqual(sizesOf(valuesOf({ args: ['--memory-limit=768MiB'] })), [768, 94, 23, 5]);
  const args = ['--memory-limit=1GiB', '--body-memory=96MiB', '--max-merge-size=40MiB'];
  assert.deepEqual(sizesOf(valuesOf({ args, machineMemoryBytes: 256 * MiB })), [1024, 96, 40, 6]);
  assert.deepEqual(sizesOf(valuesOf({ args: ['--memory-limit=10GiB'] })), [10_240, 1024, 256, 16]);
  assert.deepEqual(sizesOf(valuesOf({ args: ['--memory-limit=1GiB', '--principal-share=100%'] })), [1024, 154, 77, 16]);
});

test('sizes of bodies follow the part that one principal or table can have (P10)', () => {
  assert.deepEqual(sizesOf(valuesOf({ args: ['--principal-share=10%'] })), [5120, 1024, 51, 12]);
});

test('connections leave files for tables where a process may open few, unless they were set (P7)', () => {
  const connectionsWith = (openFiles: number) => valuesOf({ openFiles }).maxConnections;
  assert.deepEqual([Number.POSITIVE_INFINITY, 4608, 1024, 256, 64].map(connectionsWith), [4096, 4096, 512, 128, 1]);
  assert.equal(valuesOf({ args: ['--max-connections=512'], openFiles: 1024 }).maxConnections, 512);
  const { problems } = read({ args: ['--max-connections=513'], openFiles: 1024 });
  assert.deepEqual(problems, [
    '--max-connections (513) is more than the 512 that tables leave of the 1024 files this process may open (ulimit -n)',
  ]);
});

test('the configuration cannot be changed afterwards', () => {
  const { values } = read({ args: ['--group-claims=a,b'] });
  assert.ok(Object.isFrozen(values));
  assert.ok(Object.isFrozen(values.groupClaims));
  assert.ok(Object.isFrozen(values.storageOptions));
});

test('every mistake is reported at once, each with its place and what was expected', () => {
  const { problems } = read({
    args: ['--prot', '80', '--host', '--log-level=loud', '--port=1', '--port=2', '-x', '--no-port'],
    env: { LANCEGATE_MAX_MERGE_SIZ: '1', LANCEGATE_KEEP_ALIVE_TIMEOUT: '72', LANCEGATE_MEMORY_LIMIT: '1EiB' },
  });
  const expected = [
    /^unknown flag --prot; did you mean --port\?$/,
    /^--host needs a value/,
    /^--port is given more than once$/,
    /^unknown flag -x$/,
    /^unknown flag --no-port/,
    /^unknown environment variable LANCEGATE_MAX_MERGE_SIZ; did you mean LANCEGATE_MAX_MERGE_SIZE\?$/,
    /^LANCEGATE_MEMORY_LIMIT: "1EiB" is not accepted; expected a size such as 64KiB/,
    /^LANCEGATE_KEEP_ALIVE_TIMEOUT: "72" is not accepted; expected a duration such as/,
    /^--log-level: "loud" is not accepted; expected one of debug, info, warn, error$/,
  ];
  assert.equal(problems.length, expected.length, problems.join('\n'));
  for (const [index, pattern] of expected.entries()) assert.match(problems[index]!, pattern);
});

const refused: readonly (readonly [flag: string, text: string])[] = [
  ['port', '65536'],
  ['port', '-1'],
  ['port', '1e3'],
  ['data', ''],
  ['host', ' '],
  ['base-path', 'lance'],
  ['base-path', '/a//b'],
  ['base-path', '/a/../b'],
  ['base-path', '/a?b'],
  ['max-merge-size', '3GiB'],
  ['principal-share', '0%'],
  ['principal-share', '101%'],
  ['principal-share', '0.5'],
  ['max-merge-size', '10 apples'],
  ['drain-timeout', '5'],
  ['drain-timeout', '25d'],
  ['drain-timeout', '1m 30s'],
  ['own-issuer', 'maybe'],
  ['oidc-issuer', 'ftp://a.example'],
  ['oidc-issuer', 'https://user:word@a.example'],
  ['oidc-issuer', 'https://a.example,'],
  ['trusted-proxies', 'proxy.example'],
  ['trusted-proxies', '10.0.0.0/33'],
  ['trusted-proxies', '10.0.0.1/'],
  ['trusted-proxies', '::ffff:10.0.0.1'],
  ['trusted-proxies', 'fe80::1%eth0'],
  ['oidc-algorithms', 'HS256'],
  ['oidc-algorithms', 'none'],
  ['storage-root', 'http://bucket/x'],
  ['storage-root', 's3://key:word@bucket/x'],
  ['storage-root', 's3://bucket/x?endpoint=elsewhere'],
  ['storage-options', '["a"]'],
  ['storage-options', '{"a":1}'],
  ['storage-options', '{a}'],
];
for (const [flag, text] of refused) {
  test(`--${flag}=${JSON.stringify(text)} is refused`, () => {
    const { problems } = read({ args: [`--${flag}=${text}`, '--oidc-audience=x'] });
    assert.equal(problems.length, 1, problems.join('\n'));
    assert.match(problems[0]!, new RegExp(`^--${flag}: .* expected `));
  });
}

const onPostgres = '--catalog=postgres://a@db.example/a';

const conflicting: readonly (readonly [args: readonly string[], problem: RegExp])[] = [
  [['--oidc-issuer=https://a.example'], /^--oidc-issuer needs --oidc-audience/],
  [['--tls-certificate=a'], /^--tls-certificate needs --tls-key/],
  [['--tls-key=a'], /^--tls-key needs --tls-certificate/],
  [['--storage-root-moved-from=/a'], /^--storage-root-moved-from has no effect without --catalog/],
  ...['http://0.0.0.0:2333', 'http://0:2333', 'https://[::]:2333', 'http://[0:0::0]'].map(
    (url) =>
      [[onPostgres, `--advertise=${url}`], /^--advertise http.* has no address that other replicas can/] as const,
  ),
  [[onPostgres, '--host=0.0.0.0'], /^--host 0\.0\.0\.0 is no address that other replicas can reach/],
  [['--replica-ca=a'], /^--replica-ca has no effect without --catalog/],
  [['--oidc-audience=x'], /^--oidc-audience has no effect without --oidc-issuer/],
  [
    ['--oidc-issuer=http://a.example', '--oidc-audience=x'],
    /http:\/\/a\.example is not https; --allow-insecure-issuer/,
  ],
  [['--introspection-client-id=x'], /^--introspection-client-id has no effect without --introspection-issuer/],
  [
    ['--introspection-issuer=https://a.example', '--introspection-client-id=x', '--introspection-audience=y'],
    /^--introspection-issuer needs --introspection-client-secret/,
  ],
  [['--default-timeout=2h'], /^--default-timeout \(2h\) is more than --max-timeout \(1h\) allows/],
  [
    ['--body-memory=2GiB'],
    /^--body-memory \(2GiB\) is more than the 1114MiB that --memory-limit \(5GiB\) leaves for it/,
  ],
  [
    ['--memory-limit=1GiB', '--body-memory=512MiB'],
    /^--body-memory \(512MiB\) is more than the 154MiB that --memory-limit \(1GiB\) leaves/,
  ],
  [['--memory-limit=1GiB', '--max-merge-size=100MiB'], /^--max-merge-size \(100MiB\) is more than the 77MiB that/],
  [['--principal-share=1%'], /^--principal-share leaves 10737418B of --body-memory \(1GiB\), and a body needs/],
  [['--max-merge-size=600MiB'], /^--max-merge-size \(600MiB\) is more than the 512MiB that --principal-share leaves/],
];
for (const [args, problem] of conflicting) {
  test(`${args.join(' ')} contradicts itself`, () => {
    const { problems } = read({ args });
    assert.equal(problems.length, 1, problems.join('\n'));
    assert.match(problems[0]!, problem);
  });
}

test('an http issuer on this very machine is no conflict, and neither is one that was allowed', () => {
  valuesOf({ args: ['--oidc-issuer=http://127.0.0.1:9/', '--oidc-audience=x'] });
  valuesOf({ args: ['--oidc-issuer=http://a.example', '--oidc-audience=x', '--allow-insecure-issuer'] });
});

const introspection = ['--introspection-issuer=https://a', '--introspection-client-id=x', '--introspection-audience=y'];

test('a secret can stand in a file, without the newline at its end', () => {
  const env = { LANCEGATE_INTROSPECTION_CLIENT_SECRET_FILE: '/run/secret' };
  const { values, sources } = read({ args: introspection, env, files: { '/run/secret': 'hush hush\n' } });
  assert.equal(values.introspectionClientSecret, 'hush hush');
  assert.equal(sources.introspectionClientSecret, 'LANCEGATE_INTROSPECTION_CLIENT_SECRET_FILE');
});

test('a secret both in a variable and in a file, or in a file that is not there, is a mistake', () => {
  const both = read({
    env: { LANCEGATE_STORAGE_OPTIONS: '{}', LANCEGATE_STORAGE_OPTIONS_FILE: '/a' },
    files: { '/a': '{}' },
  });
  assert.match(both.problems.join(), /^LANCEGATE_STORAGE_OPTIONS and LANCEGATE_STORAGE_OPTIONS_FILE are both set/);
  const missing = read({ env: { LANCEGATE_STORAGE_OPTIONS_FILE: '/a' } });
  assert.deepEqual(missing.problems, ['LANCEGATE_STORAGE_OPTIONS_FILE: cannot read "/a"']);
  const notASecret = read({ env: { LANCEGATE_PORT_FILE: '/a' } });
  assert.match(notASecret.problems.join(), /^unknown environment variable LANCEGATE_PORT_FILE/);
});

test('no secret is shown, neither by the effective configuration nor by an error (P9)', () => {
  const options = '{"aws_secret_access_key":"tell-nobody"}';
  const env = { LANCEGATE_INTROSPECTION_CLIENT_SECRET: 'hush', LANCEGATE_STORAGE_OPTIONS: options };
  const good = read({ args: introspection, env });
  assert.deepEqual(good.problems, []);
  const shown = showConfig(effectiveSettings(good));
  assert.doesNotMatch(shown, /hush|tell-nobody/);
  assert.match(shown, /introspection-client-secret +\*{8} +LANCEGATE_INTROSPECTION_CLIENT_SECRET/);
  assert.match(shown, /aws_secret_access_key/);

  const bad = read({ args: ['--storage-options', `${options}}`] });
  assert.deepEqual(bad.problems, [
    '--storage-options: the value (not shown) is not accepted; expected a JSON object whose values are strings',
  ]);
});

test('a secret is refused in a flag, which other users of the machine can see, and what says where a store is is not (P9)', () => {
  const problemsOf = (options: object) => read({ args: ['--storage-options', JSON.stringify(options)] }).problems;
  const plain = {
    aws_region: 'a',
    aws_endpoint: 'http://s:1',
    allow_http: 'true',
    azure_storage_account_name: 'a',
    timeout: '1s',
  };
  assert.deepEqual(problemsOf(plain), []);
  const secret = [
    'aws_secret_access_key',
    'azure_storage_sas_key',
    'google_service_account_key',
    'token',
    'some_new_one',
  ];
  for (const name of secret) {
    const [problem, ...others] = problemsOf({ ...plain, [name]: 'tell-nobody' });
    assert.match(
      problem ?? '',
      /^--storage-options: other users .*; set LANCEGATE_STORAGE_OPTIONS or LANCEGATE_STORAGE_OPTIONS_FILE/,
    );
    assert.doesNotMatch(problem ?? '', /tell-nobody/);
    assert.deepEqual(others, []);
  }
  assert.equal(problemsOf({ aws_endpoint: 'http://user:tell-nobody@s' }).length, 1);
  assert.equal(problemsOf({ azure_endpoint: 'https://a.example/c?sv=1&sig=tell-nobody' }).length, 1);
  const hush = read({ args: [...introspection, '--introspection-client-secret=hush'] }).problems;
  assert.match(
    hush.join(),
    /^--introspection-client-secret: other users .* in a flag; set LANCEGATE_INTROSPECTION_CLIENT_SECRET/,
  );
});

test('the effective configuration names every setting, its value and its source', () => {
  const lines = showConfig(effectiveSettings(read({ env: { LANCEGATE_BODY_MEMORY: '268435456' } }))).split('\n');
  assert.equal(lines.length - 1, Object.keys(settings).length);
  assert.ok(lines.some((line) => /^body-memory +256MiB +LANCEGATE_BODY_MEMORY$/.test(line)));
  assert.ok(lines.some((line) => /^policy-file +\(not set\) +default$/.test(line)));
});
