import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { describe, test } from 'node:test';
import { ClientAddresses } from '#src/http/request-head.ts';

const sent = (remoteAddress: string | undefined, headers: IncomingHttpHeaders = {}) => ({
  socket: { remoteAddress },
  headers,
});
const behind = (...proxies: readonly string[]) => new ClientAddresses(proxies);
const addressOf = (clients: ClientAddresses, from: string | undefined, headers: IncomingHttpHeaders = {}): string =>
  clients.clientOf(sent(from, headers)).address;

describe('the address of a client', () => {
  test('is where the connection comes from, whatever its headers say, while no proxy is trusted (P9)', () => {
    const headers = { 'x-forwarded-for': '192.0.2.1', forwarded: 'for=192.0.2.2' };
    for (const clients of [behind(), behind('10.0.0.0/8')]) {
      assert.deepEqual(clients.clientOf(sent('203.0.113.9', headers)), {
        address: '203.0.113.9',
        sharer: '203.0.113.9',
        proxy: undefined,
      });
    }
  });

  test('is the rightmost that no trusted proxy has: what stands left of it, a client may have made up (P9)', () => {
    const clients = behind('10.0.0.0/8', 'fd00::/8');
    const forwarded = (value: string) => addressOf(clients, '10.1.2.3', { 'x-forwarded-for': value });
    assert.equal(forwarded('198.51.100.7'), '198.51.100.7');
    assert.equal(forwarded('1.1.1.1, 10.9.9.9, 198.51.100.7'), '198.51.100.7');
    assert.equal(forwarded('1.1.1.1,198.51.100.7 , 10.9.9.9,fd00::1'), '198.51.100.7');
    assert.equal(forwarded('nonsense, 198.51.100.7'), '198.51.100.7');
  });

  test('is the first of the proxies where no other is named, as of a probe that one of them sends', () => {
    const headers = { 'x-forwarded-for': '10.0.0.5, 10.0.0.6' };
    assert.equal(addressOf(behind('10.0.0.0/8'), '10.1.2.3', headers), '10.0.0.5');
  });

  test('is the proxy itself where it names no client, or no address', () => {
    const clients = behind('10.1.2.3');
    const values = ['', ' ', ',', 'unknown', '_hidden', '1.2.3', '1.2.3.4.5', '::g', '1.1.1.1, x', '[::1', '1.2.3.4:x'];
    for (const value of values) {
      const client = clients.clientOf(sent('10.1.2.3', { 'x-forwarded-for': value }));
      assert.deepEqual([client.address, client.proxy], ['10.1.2.3', undefined], value);
    }
    for (const value of ['', 'proto=http', 'for=unknown', 'for=_x', 'before=1.1.1.1', 'for="1.1.1.1']) {
      assert.equal(addressOf(clients, '10.1.2.3', { forwarded: value }), '10.1.2.3', value);
    }
    assert.equal(addressOf(clients, '10.1.2.3'), '10.1.2.3');
  });

  test('may come with a port', () => {
    const named = {
      '192.0.2.60:4711': '192.0.2.60',
      '[2001:db8::17]:4711': '2001:db8::17',
      '[2001:db8::17]': '2001:db8::17',
      '2001:db8::17': '2001:db8::17',
    };
    for (const [value, address] of Object.entries(named)) {
      assert.equal(addressOf(behind('10.1.2.3'), '10.1.2.3', { 'x-forwarded-for': value }), address);
    }
  });

  test('is read from Forwarded where there is no X-Forwarded-For, and never where there is (RFC 7239)', () => {
    const clients = behind('10.0.0.0/8');
    const forms = [
      'for=192.0.2.60',
      'for=1.1.1.1, for=192.0.2.60;proto=http;by=10.1.2.3, for=10.9.9.9',
      'proto=https;For="192.0.2.60:80"',
      'by=10.1.2.3; for=192.0.2.60',
    ];
    for (const forwarded of forms) assert.equal(addressOf(clients, '10.1.2.3', { forwarded }), '192.0.2.60', forwarded);
    assert.equal(addressOf(clients, '10.1.2.3', { forwarded: 'for="[2001:DB8::0:17]:4711"' }), '2001:db8::17');
    const both = { forwarded: 'for=1.1.1.1', 'x-forwarded-for': '192.0.2.60' };
    assert.equal(addressOf(clients, '10.1.2.3', both), '192.0.2.60');
  });

  test('has one form: IPv4 is never written as IPv6, nor a zone', () => {
    const clients = behind('10.1.2.3');
    assert.equal(addressOf(clients, '::ffff:203.0.113.9'), '203.0.113.9');
    assert.equal(addressOf(clients, '::ffff:10.1.2.3', { 'x-forwarded-for': '::FFFF:CB00:7109' }), '203.0.113.9');
    assert.equal(addressOf(clients, '2001:0DB8:0:0:0:0:0:17'), '2001:db8::17');
    assert.equal(addressOf(clients, 'fe80::1%eth0'), 'fe80::1');
    assert.equal(addressOf(clients, undefined), 'unknown');
  });
});

describe('a share of the connections', () => {
  const sharer = (address: string): string => behind().clientOf(sent(address)).sharer;

  test('is of an IPv4 address, and of an IPv6 network of 64 bits', () => {
    assert.equal(sharer('203.0.113.9'), '203.0.113.9');
    assert.equal(sharer('::ffff:203.0.113.9'), '203.0.113.9');
    assert.equal(sharer('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64');
    assert.equal(sharer('2001:db8:1:2::6'), '2001:db8:1:2::/64');
    assert.equal(sharer('2001:db8::6'), '2001:db8:0:0::/64');
    assert.equal(sharer('::1'), '0:0:0:0::/64');
    assert.equal(sharer('fd00::'), 'fd00:0:0:0::/64');
    assert.notEqual(sharer('2001:db8:1:2::6'), sharer('2001:db8:1:3::6'));
  });
});

test('a trusted proxy is an address or a range, in either family', () => {
  const clients = behind('10.0.0.0/8', '192.0.2.7', '2001:db8::/32', '::1');
  const isTrusted = (address: string): boolean => clients.isTrusted(clients.peer({ remoteAddress: address }));
  for (const address of ['10.255.0.1', '192.0.2.7', '::ffff:10.0.0.1', '2001:db8:ffff::1', '::1']) {
    assert.equal(isTrusted(address), true, address);
  }
  for (const address of ['11.0.0.1', '192.0.2.8', '2001:db9::1', '::2', '']) {
    assert.equal(isTrusted(address), false, address);
  }
});
