import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { boundaryOf, Multipart } from '#src/endpoint/body/multipart.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { Random } from '#test/model/random.ts';

const head = (name: string, more = ''): string => `Content-Disposition: form-data; name="${name}"${more}\r\n\r\n`;

async function* inPieces(bytes: Buffer, pieceBytes: () => number): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < bytes.length; ) {
    const end = at + pieceBytes();
    // The service frees a chunk when it is done with; nothing may look into it afterwards.
    const piece = Buffer.from(bytes.subarray(at, end));
    yield piece;
    piece.fill(0);
    at = end;
  }
}

async function partsOf(body: Buffer | string, pieceBytes = () => 7, maxBytes = 1_000_000) {
  const multipart = new Multipart(inPieces(Buffer.from(body), pieceBytes), 'b', maxBytes);
  const parts: (readonly [name: string, content: string])[] = [];
  for (let part = await multipart.next(); part !== undefined; part = await multipart.next()) {
    const pieces: Buffer[] = [];
    for await (const piece of part.bytes) pieces.push(Buffer.from(piece));
    parts.push([part.name, Buffer.concat(pieces).toString('latin1')]);
  }
  return parts;
}

describe('the parts of a body', () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    test(`seed ${seed}: parts arrive as they were sent, however the body is cut`, async () => {
      const random = new Random(seed);
      const fragments = ['', '\r\n', '\r\n--', '--b', '\r\n-b', '\r', '\n--b\r\n', 'x', '\r\n--a\r\n', '\0\xff', '--'];
      for (let round = 0; round < 40; round++) {
        const sent = Array.from({ length: random.int(5) }, (_, index) => {
          const content = Array.from({ length: random.int(12) }, () => random.pick(fragments)).join('');
          return [`p${index}`, content.replaceAll('\r\n--b', '\r\n--c')] as const;
        });
        const text = sent.map(([name, content]) => `--b\r\n${head(name)}${content}\r\n`).join('');
        const body = Buffer.from(`${text}--b--${random.int(2) === 0 ? '\r\n' : ''}`, 'latin1');
        assert.deepEqual(await partsOf(body, () => 1 + random.int(9)), sent, `round ${round}`);
      }
    });
  }

  test('a part that is not read is passed over', async () => {
    const body = `--b\r\n${head('one')}first\r\n--b\r\n${head('two')}second\r\n--b--\r\n`;
    const multipart = new Multipart(
      inPieces(Buffer.from(body), () => 3),
      'b',
      1_000,
    );
    assert.equal((await multipart.next())?.name, 'one');
    assert.equal((await multipart.next())?.name, 'two');
    assert.equal(await multipart.next(), undefined);
    assert.equal(await multipart.next(), undefined);
  });

  const one = (headers: string) => `--b\r\n${headers}\r\n\r\nx\r\n--b--`;
  const hostile: readonly (readonly [what: string, body: string, says: RegExp])[] = [
    ['nothing', '', /does not begin/],
    ['another boundary', `--c\r\n${head('a')}x\r\n--c--`, /does not begin/],
    ['text before the first boundary', `hello\r\n--b\r\n${head('a')}x\r\n--b--`, /does not begin/],
    ['no end', `--b\r\n${head('a')}x\r\n`, /ends within part 1/],
    ['an end in the middle of a boundary', `--b\r\n${head('a')}x\r\n--b`, /ends after a boundary/],
    ['an end in the headers', '--b\r\nContent-Disposition: form-data', /ends within the headers of part 1/],
    ['a boundary that goes on', `--b\r\n${head('a')}x\r\n--bb--`, /neither begins a part/],
    ['spaces after a boundary', `--b \r\n${head('a')}x\r\n--b--`, /neither begins a part/],
    ['bytes after the end', `--b\r\n${head('a')}x\r\n--b--\r\nmore`, /follow the last boundary/],
    ['headers of 5 kB', one(`${head('a').trim()}\r\nX: ${'y'.repeat(5_000)}`), /more than 4096 bytes/],
    ['headers without end', `--b\r\n${'y'.repeat(100_000)}`, /more than 4096 bytes/],
    ['too many headers', one(`${head('a').trim()}${'\r\nX: y'.repeat(20)}`), /more than 16 headers/],
    ['two headers of a name', one(`${head('a').trim()}\r\n${head('b').trim()}`), /several headers/],
    ['no headers', '--b\r\n\r\nx\r\n--b--', /malformed|ends within the headers/],
    ['no name', one('Content-Disposition: form-data'), /name/],
    ['an empty name', one('Content-Disposition: form-data; name=""'), /name/],
    ['two names', one('Content-Disposition: form-data; name="a"; name="b"'), /twice/],
    ['another disposition', one('Content-Disposition: attachment; name="a"'), /form-data/],
    ['a name with a line break', one('Content-Disposition: form-data; name="a\nb"'), /malformed/],
    ['a name with a control character', one('Content-Disposition: form-data; name="a\x01b"'), /malformed/],
    ['a name with an escape', one('Content-Disposition: form-data; name="a\x9b31mb"'), /name|malformed/],
    ['a name with a quote', one('Content-Disposition: form-data; name="a\\"b"'), /name/],
    ['a name too long', one(`Content-Disposition: form-data; name="${'a'.repeat(65)}"`), /name/],
    ['a quote that is not closed', one('Content-Disposition: form-data; name="a'), /form-data with a name/],
    ['a line among the headers that is none', one(`${head('a').trim()}\r\nno header`), /malformed/],
    ['a folded header', one('Content-Disposition: form-data;\r\n name="a"'), /malformed/],
    ['base64', one(`${head('a').trim()}\r\nContent-Transfer-Encoding: base64`), /content-transfer-encoding/],
  ];
  for (const [what, body, says] of hostile) {
    test(`${what}: refused`, async () => {
      for (const bytes of [1, 7, 1_000_000]) {
        await assert.rejects(
          partsOf(Buffer.from(body, 'latin1'), () => bytes),
          (error) => error instanceof LancegateError && error.kind === 'InvalidInput' && says.test(error.message),
        );
      }
    });
  }

  test('a body beyond its limit is refused as soon as it is (P7)', async () => {
    await assert.rejects(
      partsOf(`--b\r\n${head('a')}${'x'.repeat(1_000)}`, () => 10, 500),
      (error) => error instanceof LancegateError && error.kind === 'BodyTooLarge',
    );
  });

  test('the boundary is that of the content type', () => {
    assert.equal(boundaryOf('multipart/form-data; boundary=----formdata-undici-012'), '----formdata-undici-012');
    assert.equal(boundaryOf('Multipart/Form-Data; charset=utf-8; Boundary="a b:c"'), 'a b:c');
    for (const wrong of [
      undefined,
      'application/json',
      'multipart/mixed; boundary=b',
      'multipart/form-data',
      'multipart/form-data; boundary=',
      'multipart/form-data; boundary=""',
      'multipart/form-data; boundary="a "',
      'multipart/form-data; boundary="a\r\nb"',
      `multipart/form-data; boundary=${'b'.repeat(71)}`,
    ]) {
      assert.throws(() => boundaryOf(wrong), { kind: 'InvalidInput' });
    }
  });
});
