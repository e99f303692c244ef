import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  bytes,
  decode,
  edit,
  editEach,
  messageTable,
  repeated,
  text,
  uint,
  WireReader,
  WireWriter,
} from '#src/lance-format/protobuf.ts';

const maxUint64 = 2n ** 64n - 1n;
const numbers = [0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER];

/** Of the only field, `field`. */
function readBack<Value>(message: WireWriter, field: number, read: (reader: WireReader) => Value): Value {
  const reader = new WireReader(message.finish());
  assert.equal(reader.next(), field);
  const value = read(reader);
  assert.equal(reader.next(), undefined);
  return value;
}

describe('a protobuf message that is written', () => {
  test('has the bytes that the encoding prescribes', () => {
    // The examples of https://protobuf.dev/programming-guides/encoding/.
    assert.equal(new WireWriter().number(1, 150).finish().toString('hex'), '089601');
    assert.equal(new WireWriter().text(2, 'testing').finish().toString('hex'), '120774657374696e67');
    assert.equal(new WireWriter().packed(6, [3, 270, 86_942]).finish().toString('hex'), '3206038e029ea705');
    const inner = new WireWriter().number(1, 150);
    assert.equal(new WireWriter().message(3, inner).finish().toString('hex'), '1a03089601');
  });

  for (const number of numbers) {
    test(`reads back the number ${number}`, () => {
      assert.equal(
        readBack(new WireWriter().number(1, number), 1, (reader) => reader.number()),
        number,
      );
      assert.equal(
        readBack(new WireWriter().uint64(16, BigInt(number)), 16, (reader) => reader.uint64()),
        BigInt(number),
      );
    });
  }

  test('reads back numbers of up to 64 bits', () => {
    for (const value of [2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, maxUint64]) {
      assert.equal(
        readBack(new WireWriter().uint64(1, value), 1, (reader) => reader.uint64()),
        value,
      );
    }
  });

  test('refuses numbers that would not read back', () => {
    for (const number of [-1, 1.5, Number.NaN, Number.MAX_SAFE_INTEGER + 1]) {
      assert.throws(() => new WireWriter().number(1, number), RangeError);
    }
    for (const value of [-1n, maxUint64 + 1n]) assert.throws(() => new WireWriter().uint64(1, value), RangeError);
  });

  test('reads back all kinds of fields, in the order they were written', () => {
    const inner = new WireWriter().text(1, 'größer').message(2, new WireWriter().flag(1, false));
    const message = new WireWriter()
      .flag(1, true)
      .bytes(1_000_000, Buffer.of(0, 255))
      .message(3, inner)
      .packed(4, numbers);
    const reader = new WireReader(message.finish());
    assert.deepEqual([reader.next(), reader.flag()], [1, true]);
    assert.deepEqual([reader.next(), Buffer.from(reader.bytes())], [1_000_000, Buffer.of(0, 255)]);
    assert.equal(reader.next(), 3);
    const innerReader = new WireReader(reader.bytes());
    assert.deepEqual([innerReader.next(), innerReader.text()], [1, 'größer']);
    assert.equal(innerReader.next(), 2);
    const innermost = new WireReader(innerReader.bytes());
    assert.deepEqual([innermost.next(), innermost.flag(), innermost.next()], [1, false, undefined]);
    assert.deepEqual([reader.next(), reader.packed()], [4, numbers]);
    assert.equal(reader.next(), undefined);
  });

  test('takes over fields that are encoded already as they are', () => {
    const encoded = new WireWriter().number(1, 5).text(2, 'x'.repeat(1_000)).finish();
    assert.deepEqual(new WireWriter().raw(encoded).finish(), encoded);
    const twice = new WireWriter().flag(9, true).raw(encoded).raw(encoded).finish();
    assert.deepEqual(twice, Buffer.concat([new WireWriter().flag(9, true).finish(), encoded, encoded]));
  });

  test('may be empty, alone or within another', () => {
    assert.equal(new WireWriter().finish().length, 0);
    const empty = new WireWriter().message(1, new WireWriter()).text(2, '').packed(3, []).finish();
    assert.deepEqual(empty, Buffer.of(0x0a, 0, 0x12, 0, 0x1a, 0));
  });

  test('does not change with what is written after it was finished', () => {
    for (const length of [1, 63, 10_000]) {
      const message = new WireWriter().bytes(1, Buffer.alloc(length, 7));
      const [finished, copy] = [message.finish(), Buffer.from(message.finish())];
      message.bytes(2, Buffer.alloc(length, 8));
      assert.deepEqual(finished, copy);
    }
  });

  test('holds thousands of messages', () => {
    const message = new WireWriter();
    for (let id = 0; id < 5_000; id += 1) message.message(2, new WireWriter().number(1, id).text(3, `file ${id}`));
    const reader = new WireReader(message.finish());
    for (let id = 0; id < 5_000; id += 1) {
      assert.equal(reader.next(), 2);
      const inner = new WireReader(reader.bytes());
      assert.deepEqual([inner.next(), inner.number(), inner.next(), inner.text()], [1, id, 3, `file ${id}`]);
    }
    assert.equal(reader.next(), undefined);
  });
});

test('an edit of the messages within a message keeps all other fields, and their order, byte for byte', () => {
  const part = messageTable({ size: uint(1) });
  const whole = messageTable({ name: text(2), parts: repeated(bytes(3)) });
  const encoded = (...sizes: readonly [number, number]) =>
    new WireWriter()
      .number(9, 7)
      .message(3, new WireWriter().number(1, sizes[0]).text(8, 'of a newer Lance'))
      .text(2, 'name')
      .message(3, new WireWriter().number(1, sizes[1]))
      .uint64(12, maxUint64)
      .finish();
  const doubled = (each: Uint8Array) => edit(part, each, { size: 2 * (decode(part, each).size ?? 0) });
  assert.deepEqual(editEach(whole, encoded(5, 300), { parts: doubled }), encoded(10, 600));
  assert.deepEqual(editEach(part, encoded(5, 300), {}), encoded(5, 300));
});
