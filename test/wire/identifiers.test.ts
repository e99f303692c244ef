import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  hasTrailingSlash,
  parseBranch,
  parseBranchName,
  parseNamespacePath,
  parseTableRef,
  readDelimiter,
  routedTarget,
  splitTarget,
} from '#src/wire/identifiers.ts';
import { QueryParameters } from '#src/wire/query-parameters.ts';

const refused = { name: 'LancegateError', kind: 'InvalidInput' };

test('an id is split by its delimiter, which alone is the root namespace', () => {
  assert.deepEqual(parseNamespacePath('$', '$'), []);
  assert.deepEqual(parseNamespacePath('::', '::'), []);
  assert.deepEqual(parseNamespacePath('a$b', '$'), ['a', 'b']);
  assert.deepEqual(parseNamespacePath('a$b', '::'), ['a$b']);
  assert.deepEqual(parseTableRef('a::b::t', '::'), { namespace: ['a', 'b'], name: 't' });
  assert.deepEqual(parseTableRef('t', '$'), { namespace: [], name: 't' });
});

test('any Unicode name of up to 255 bytes is one', () => {
  for (const name of ['ü'.repeat(127), 'a/b', 'a b', '表', '...', '.hidden', 'x'.repeat(255)]) {
    assert.deepEqual(parseTableRef(name, '$'), { namespace: [], name });
  }
});

test('names that no table can have are refused (P9)', () => {
  for (const id of ['', 'a$', '$a', 'a$$b', '.', '..', 'a$..', 'a\n', 'a\u0000', 'a\u0085', 'ü'.repeat(128)]) {
    assert.throws(() => parseTableRef(id, '$'), refused, JSON.stringify(id));
  }
  assert.throws(() => parseTableRef('$', '$'), { ...refused, message: /root namespace, not a table/ });
});

test('an id has at most 32 parts: the policy is asked about each, while all requests wait (P7)', () => {
  assert.equal(parseNamespacePath(Array(32).fill('n').join('$'), '$').length, 32);
  const deep = Array(33).fill('n').join('$');
  assert.throws(() => parseNamespacePath(deep, '$'), { ...refused, message: /^id "n.+": it has more than 32 parts$/ });
  assert.throws(() => parseTableRef(deep, '$'), refused);
});

test('the delimiter is $ unless given, and never empty', () => {
  assert.equal(readDelimiter(new QueryParameters('')), '$');
  assert.equal(readDelimiter(new QueryParameters('delimiter=%3A%3A')), '::');
  assert.throws(() => readDelimiter(new QueryParameters('delimiter=')), refused);
});

test('blank and main are the main branch', () => {
  for (const text of [undefined, '', '  ', 'main']) assert.equal(parseBranch(text), undefined);
  assert.equal(parseBranch('mAin'), 'mAin');
});

test('branch names follow the rules of Lance', () => {
  for (const name of ['dev', 'a/b/c', 'v1.2_x-3', 'zweig-ü', '.hidden'])
    assert.equal(parseBranchName(name, 'name'), name);
  const wrong = ['', 'main', '/a', 'a/', 'a//b', 'a..b', 'a\\b', 'a.lock', './a', 'a/.', 'a b', 'a$b', 'x'.repeat(256)];
  for (const name of wrong) assert.throws(() => parseBranchName(name, 'name'), refused, name);
});

test('the routed target has single slashes, and a plus where it is meant', () => {
  const targets = {
    '//v1//table?x=a//b+c': '/v1/table?x=a//b+c',
    '/v1/table/a+b/drop': '/v1/table/a+b/drop',
    '/v1/table/a+b/drop?delimiter': '/v1/table/a%20b/drop?delimiter',
    '/v1/table/a+b/drop?xdelimiter=1': '/v1/table/a+b/drop?xdelimiter=1',
    '/v1/namespace/list?delimiter=.': '/v1/namespace/%2E/list?delimiter=.',
    '/base/v1/namespace/table/list/?delimiter=%2e': '/base/v1/namespace/%2E/table/list?delimiter=%2e',
    '/v1/namespace/a/list?delimiter=.': '/v1/namespace/a/list?delimiter=.',
    'http://host:1/v1/table?a': '/v1/table?a',
    'http://host': '/',
  };
  for (const [url, routed] of Object.entries(targets)) assert.equal(routedTarget(url), routed);
});

test('the trailing slash is looked for in the path, not in the query', () => {
  assert.equal(hasTrailingSlash('/v1/table/?a=b'), true);
  assert.equal(hasTrailingSlash('/v1/table?a=b/'), false);
  assert.deepEqual(splitTarget('/a?b?c'), { path: '/a', queryString: 'b?c' });
});
