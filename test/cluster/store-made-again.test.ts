import { after, test } from 'node:test';
import { madeAgainContract } from '#test/contract/made-again.ts';
import { s3 } from '#test/fixtures/stores-under-test.ts';

if (s3.without === undefined) {
  const { newRoot, storageOptions } = await s3.start(after);
  madeAgainContract(s3.name, () => ({ root: newRoot(), options: storageOptions }));
} else {
  test(`a branch on ${s3.name} that is made again`, { skip: s3.without }, () => undefined);
}
