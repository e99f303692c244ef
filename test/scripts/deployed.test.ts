/** What is deployed: that the parts name the same things, and that none is taken on trust. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { BlockList } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';

const read = (name: string): string => readFileSync(join(import.meta.dirname, '../..', name), 'utf8');

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly link?: boolean;
}

/** The registry that the file was last made from did not have them in this version. */
const notFound =
  /^node_modules\/@lancedb\/lancedb-(?:darwin-arm64|linux-arm64-gnu|linux-arm64-musl|win32-(?:arm64|x64)-msvc)$/;

test('every package has the digest that npm compares it with, those of other machines too (P9)', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };
  const without = Object.entries(packages).filter(([path, { integrity, link }]) => path !== '' && !integrity && !link);
  assert.deepEqual(
    without.map(([path]) => path).filter((path) => !notFound.test(path)),
    [],
  );
});

test('the image has the Node that the tests run on', () => {
  const { devDependencies } = JSON.parse(read('package.json')) as { devDependencies: { node: string } };
  const images = [...read('deploy/Dockerfile').matchAll(/^ARG base=node:(\S+?)-/gm)].map(([, version]) => version);
  assert.deepEqual(images, [devDependencies.node]);
});

test('replicas of the compose file trust the balancer and one another, and not the gateway of their network (P9)', () => {
  const compose = read('deploy/compose.yaml');
  const [, trusted = ''] = /LANCEGATE_TRUSTED_PROXIES: (\S+)/.exec(compose) ?? [];
  const [, gateway = ''] = /gateway: ([\d.]+)/.exec(compose) ?? [];
  const addresses = [...compose.matchAll(/ipv4_address: ([\d.]+)/g)].map(([, address]) => address!);
  const list = new BlockList();
  const [network = '', prefix] = trusted.split('/');
  list.addSubnet(network, Number(prefix), 'ipv4');
  assert.equal(addresses.length, 4);
  assert.deepEqual(
    [gateway, ...addresses].map((address) => list.check(address)),
    [false, true, true, true, true],
  );
});
