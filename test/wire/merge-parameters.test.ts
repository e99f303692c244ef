import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filterReader, readMergeParameters } from '#src/wire/merge-parameters.ts';
import { QueryParameters } from '#src/wire/query-parameters.ts';

const read = (text: string) => readMergeParameters(new QueryParameters(text), filterReader([]));
const flags = (text: string) => {
  const { whenMatchedUpdateAll, whenNotMatchedInsertAll, whenNotMatchedBySourceDelete } = read(`on=id&${text}`).flags;
  return [whenMatchedUpdateAll, whenNotMatchedInsertAll, whenNotMatchedBySourceDelete];
};
const refused = { name: 'LancegateError', kind: 'InvalidInput' };

const [update, insert, remove] = [
  'when_matched_update_all',
  'when_not_matched_insert_all',
  'when_not_matched_by_source_delete',
];

test('a merge that names no action updates and inserts', () => {
  assert.deepEqual(flags(''), [true, true, false]);
});

test('once an action is named, the others are off', () => {
  assert.deepEqual(flags(update!), [true, false, false]);
  assert.deepEqual(flags(`${insert}=true`), [false, true, false]);
  assert.deepEqual(flags(`${remove}=1`), [false, false, true]);
  assert.deepEqual(flags(`${update}=true&${insert}=true&${remove}=false`), [true, true, false]);
});

test('a filter turns its action on, also together with a flag that says false', () => {
  assert.deepEqual(flags(`${update}_filt=source.n+%3E+1`), [{ filter: '(source.n > 1)' }, false, false]);
  assert.deepEqual(flags(`${update}=false&${update}_filt=x`), [{ filter: '(x)' }, false, false]);
  assert.deepEqual(flags(`${insert}&${remove}&${remove}_filt=n+IS+NULL`), [false, true, { filter: '(n IS NULL)' }]);
});

test('a merge that would do nothing is refused, and so is an empty filter', () => {
  assert.throws(() => flags(`${update}=false&${insert}=false&${remove}=false`), { ...refused, message: /do nothing/ });
  assert.throws(() => flags(`${insert}=false`), refused);
  assert.throws(() => flags(`${update}_filt=+`), { ...refused, message: /^when_matched_update_all_filt: .* empty/ });
});

test('on is required, may be composite, and is not split at commas', () => {
  assert.deepEqual(read('on=a&on=b.c&on=%60x.y%60').on, [
    { segments: ['a'] },
    { segments: ['b', 'c'] },
    { segments: ['x.y'] },
  ]);
  assert.deepEqual(read('on=a,b').on, [{ segments: ['a,b'] }]);
  for (const text of ['', 'on', 'on=', 'on=a&on=', 'on=a..b', 'on=%60a'])
    assert.throws(() => read(text), refused, text);
});

test('the same path twice is refused by its canonical name, however it is written', () => {
  assert.throws(() => read('on=id&on=%60id%60'), { ...refused, message: 'on: id is given twice' });
});

test('the index is forbidden only by use_index=false', () => {
  assert.equal(read('on=id').useIndex, true);
  assert.equal(read('on=id&use_index').useIndex, true);
  assert.equal(read('on=id&use_index=False').useIndex, false);
});

for (const name of ['use_lsm', 'use_rte']) {
  test(`${name}=true is refused, and false is nothing`, () => {
    assert.equal(read(`on=id&${name}=false`).on.length, 1);
    assert.throws(() => read(`on=id&${name}=true`), { ...refused, message: new RegExp(`^${name}`) });
  });
}
