import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkStorageOptions, readCreateParameters, readProperties } from '#src/operations/create-table.ts';
import { dropBehaviors } from '#src/operations/namespaces/drop-namespace.ts';
import { createModes, parseChoice } from '#src/wire/choices.ts';
import { parseDurationMs, QueryParameters, readFlag, readPage, readTimeout } from '#src/wire/query-parameters.ts';

const refused = { name: 'LancegateError', kind: 'InvalidInput' };
const query = (text: string) => new QueryParameters(text);

test('query values are decoded by form rules', () => {
  const given = query('a=x+y&b=x%20y&c=x%2By&d=a=b&e&&f=%C3%BC');
  assert.deepEqual(
    ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => given.text(name)),
    ['x y', 'x y', 'x+y', 'a=b', '', 'ü', undefined],
  );
});

test('a broken escape matters only where the parameter is read', () => {
  const given = query('bad=%ZZ&cut=%C3&%ZZ=1&good=1');
  assert.equal(given.text('good'), '1');
  for (const name of ['bad', 'cut'])
    assert.throws(() => given.text(name), { ...refused, message: new RegExp(`^${name}:`) });
});

test('a parameter given twice must mean the same', () => {
  assert.equal(readFlag(query('f=true&f=TRUE&f'), 'f'), true);
  assert.equal(query('a=1&a=1').text('a'), '1');
  assert.throws(() => query('a=1&a=2').text('a'), {
    ...refused,
    message: 'a: given more than once, with different values',
  });
  assert.throws(() => readFlag(query('f=true&f=0'), 'f'), refused);
});

test('flags are true, false, 1, 0 or bare', () => {
  const values = {
    f: true,
    'f=true': true,
    'f=TRUE': true,
    'f=1': true,
    'f=false': false,
    'f=False': false,
    'f=0': false,
  };
  for (const [text, value] of Object.entries(values)) assert.equal(readFlag(query(text), 'f'), value, text);
  assert.equal(readFlag(query('g'), 'f'), undefined);
  for (const text of ['f=', 'f=yes', 'f=2', 'f=%20true'])
    assert.throws(() => readFlag(query(text), 'f'), refused, text);
});

test('durations add their units up, each once and from large to small', () => {
  const durations = {
    '30s': 30_000,
    '5m': 300_000,
    '1h30m': 5_400_000,
    '500ms': 500,
    '1.5m': 90_000,
    '1m5ms': 60_005,
    '7': 7000,
    '0': 0,
    '0s': 0,
  };
  for (const [text, durationMs] of Object.entries(durations))
    assert.equal(parseDurationMs(text, 'timeout'), durationMs, text);
  for (const text of ['', '-1s', '5x', '1m1h', '1s1s', 's', '1 s', '1e3s', '.5s', 'Infinity']) {
    assert.throws(
      () => parseDurationMs(text, 'timeout'),
      { ...refused, message: /^timeout: expected a duration/ },
      text,
    );
  }
});

test('of two timeouts the smaller wins, and none is above the limit', () => {
  const limits = { defaultTimeoutMs: 60_000, maxTimeoutMs: 100_000 };
  const cases: readonly (readonly [string, string | undefined, number])[] = [
    ['timeout=5s', undefined, 5_000],
    ['timeout=5s', '4000', 4_000],
    ['timeout=3s', '4000', 3_000],
    ['timeout=999999h', undefined, 100_000],
    ['', '999999999999', 100_000],
  ];
  for (const [text, header, timeoutMs] of cases)
    assert.deepEqual(readTimeout(query(text), header, limits), { timeoutMs, withBodyMs: timeoutMs }, text);
  assert.deepEqual(readTimeout(query(''), undefined, limits), { timeoutMs: 60_000, withBodyMs: 100_000 });
  for (const header of ['-1', '1.5', '5s', '']) assert.throws(() => readTimeout(query(''), header, limits), refused);
  assert.throws(() => readTimeout(query('timeout'), undefined, limits), refused);
});

test('modes are read in any case, with or without the quotes of the LanceDB SDKs', () => {
  for (const text of ['exist_ok', 'ExistOk', 'EXIST_OK', 'existok', 'exist-ok', '"ExistOk"', ' ExistOk ']) {
    assert.equal(parseChoice(text, 'mode', createModes), 'exist_ok', text);
  }
  assert.equal(parseChoice(undefined, 'mode', createModes), 'create');
  assert.equal(parseChoice('"Cascade"', 'behavior', dropBehaviors), 'cascade');
  for (const text of ['', 'replace', '""create""']) {
    assert.throws(() => parseChoice(text, 'mode', createModes), {
      ...refused,
      message: /^mode: expected create, exist_ok/,
    });
  }
});

test('properties are a JSON object of strings', () => {
  const read = (json: string) => readProperties(query(`properties=${encodeURIComponent(json)}`), 'properties');
  assert.deepEqual(read('{"a":"b","":""}'), { a: 'b', '': '' });
  assert.equal(readProperties(query(''), 'properties'), undefined);
  const wrong = {
    '{"a":1}': /the value of "a" is not a string/,
    '[]': /JSON object/,
    null: /JSON object/,
    '{': /not JSON/,
    '': /not JSON/,
  };
  for (const [json, message] of Object.entries(wrong)) assert.throws(() => read(json), { ...refused, message });
});

test('storage options that carry a secret or point elsewhere are refused by name (P9)', () => {
  assert.deepEqual(checkStorageOptions({ NEW_TABLE_DATA_STORAGE_VERSION: '2.1' }), {
    NEW_TABLE_DATA_STORAGE_VERSION: '2.1',
  });
  const wrong = [
    ...[
      'aws_endpoint',
      'AWS_ENDPOINT_URL',
      'aws_access_key_id',
      'aws_secret_access_key',
      'aws_session_token',
      'proxy_url',
    ],
    ...[
      'allow_http',
      'allow_invalid_certificates',
      'skip_signature',
      'google_service_account',
      'azure_storage_sas_key',
      '',
    ],
    'constructor',
  ];
  for (const key of wrong) {
    const message = new RegExp(`^storage_options: ${JSON.stringify(key)} cannot be set`);
    assert.throws(() => checkStorageOptions({ timeout: '5s', [key]: 'x' }), { ...refused, message });
  }
});

test('a create says mode, properties and storage options, all optional', () => {
  assert.deepEqual(readCreateParameters(query('')), {
    mode: 'create',
    properties: undefined,
    storageOptions: {},
    rules: {},
  });
  assert.throws(() => readCreateParameters(query('mode')), refused);
});

test('pages are bounded', () => {
  assert.deepEqual(readPage(query('')), { after: undefined, limit: 1000 });
  assert.deepEqual(readPage(query('page_token=&limit=10')), { after: undefined, limit: 10 });
  assert.deepEqual(readPage(query('page_token=a%24b&limit=99999999')), { after: 'a$b', limit: 1000 });
  for (const limit of ['9223372036854775807', '9'.repeat(400)])
    assert.equal(readPage(query(`limit=${limit}`)).limit, 1000, 'as in a body');
  for (const limit of ['0', '-1', '', 'x', '1.5'])
    assert.throws(() => readPage(query(`limit=${limit}`)), refused, limit);
});

test('a table is laid out only in formats that keep what is sent, and a layout that is none is refused', () => {
  for (const version of ['stable', '2.0', '2.1', '2.2'])
    checkStorageOptions({ new_table_data_storage_version: version });
  checkStorageOptions({ new_table_enable_stable_row_ids: 'true', new_table_enable_v2_manifest_paths: 'false' });
  const wrong = [
    ...['legacy', '0.1', '2.3', 'next', 'nope', ''].map((value) => ['new_table_data_storage_version', value] as const),
    ...['new_table_enable_v2_manifest_paths', 'New_Table_Enable_Stable_Row_Ids'].map((key) => [key, 'yes'] as const),
  ];
  for (const [key, value] of wrong) {
    const message = new RegExp(`^storage_options: ${key} can be (stable, 2\\.0|true, false)`);
    assert.throws(() => checkStorageOptions({ [key]: value }), { ...refused, message });
  }
});
