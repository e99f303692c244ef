/** A request is carried out only where the whole of its body has come. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { arrowType, usersStream } from './client.ts';
import { RawClient } from './raw-client.ts';
import { recordOf, twoReplicas } from './replicas.ts';
import { scriptedOperations } from './scripted-operations.ts';
import type { TestOptions } from './service.ts';
import { until } from './until.ts';

const mergePath = '/v1/table/users/merge_insert?on=id';

/** Says when a merge had all rows, with which it would be carried out. */
function mergeThatReads() {
  let wasCarriedOut = false;
  const mergeRows: NonNullable<TestOptions['script']>['mergeRows'] = async (command, scope) => {
    (await command.source.whole()).release();
    wasCarriedOut = true;
    return scriptedOperations().operations.mergeRows(command, scope);
  };
  return { options: { script: { mergeRows } }, wasCarriedOut: () => wasCarriedOut };
}

const wholeStreams = {
  plain: [[], usersStream],
  'gzip with padding': [['content-encoding: gzip'], Buffer.concat([gzipSync(usersStream), Buffer.alloc(1)])],
  'zstd with a rest': [['content-encoding: zstd'], Buffer.concat([zstdCompressSync(usersStream), Buffer.alloc(1)])],
} as const;

for (const [coding, [headers, bytes]] of Object.entries(wholeStreams)) {
  test(`the owner carries out nothing of a body that breaks off after a whole Arrow stream: ${coding} (P1, P6)`, async () => {
    const merge = mergeThatReads();
    const { replicas, first, second } = await twoReplicas(merge.options);
    await using _ = replicas;
    using client = await RawClient.connect(first);
    await client.head(`POST ${mergePath}`, [`content-type: ${arrowType}`, 'transfer-encoding: chunked', ...headers]);
    await client.chunk(bytes);
    await until(() => second.receivedBytes() === bytes.length);
    client.leave();
    const { status } = await recordOf(second);
    assert.deepEqual([merge.wasCarriedOut(), status], [false, 400]);
  });
}
