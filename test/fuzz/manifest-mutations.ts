/** Seeded damage to manifests, by what they are made of: what a broken or hostile program of Lance proposes or leaves. */
import { manifestFileOf, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import { fieldsIn, WireReader, WireWriter } from '#src/lance-format/protobuf.ts';
import { pick, type Random } from './mutations.ts';

/** The messages in a message, by the numbers of their fields. */
interface Shape {
  readonly [field: number]: Shape;
}

const none: Shape = {};
const uuidShape: Shape = none;
const dataFileShape: Shape = none;
const numbersShape: Shape = { 1: none, 2: none, 3: none };
const segmentShape: Shape = { 1: numbersShape, 2: { 3: numbersShape }, 3: none, 4: numbersShape, 5: numbersShape };
const idsShape: Shape = { 1: segmentShape };
const versionsShape: Shape = { 1: { 1: segmentShape } };
const fragmentShape: Shape = { 2: dataFileShape, 3: none, 5: idsShape, 7: versionsShape, 8: none, 9: versionsShape };
const fieldShape: Shape = { 10: none };
const manifestShape: Shape = {
  1: fieldShape,
  2: fragmentShape,
  5: none,
  7: none,
  13: none,
  15: none,
  16: none,
  18: none,
  19: none,
};
const indexShape: Shape = { 1: uuidShape, 6: none, 10: none };
const indexSectionShape: Shape = { 1: indexShape };

const numbers = [
  0n,
  1n,
  2n,
  3n,
  7n,
  100n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n,
  2n ** 63n,
  2n ** 64n - 1n,
];
const texts = [
  ...[
    '',
    'x',
    'id',
    '\0',
    '..',
    'a/b',
    'a.b',
    '`',
    'struct',
    'list',
    'list.struct',
    'map',
    'blob',
    'json',
    'int64',
    'string',
  ],
  ...['fixed_size_list:float:0', 'fixed_size_list:float:2147483647', 'fixed_size_list:struct:2', 'decimal:128:99:1'],
  ...[
    'fixed_size_binary:-1',
    'dict:string:int8:false',
    'dict:struct:int8:false',
    'timestamp:us:a:b',
    'time32:ns',
    'nonsense',
  ],
  ...['0.1', '2.0', '2.1', '2.2', '9.9', 'stable', 'next', 'lance', 'parquet'],
  'fixed_size_list:'.repeat(3_000),
];

interface Field {
  readonly number: number;
  readonly raw: Uint8Array;
}

const join = (fields: readonly Field[]): Uint8Array =>
  fields.reduce((writer, { raw }) => writer.raw(raw), new WireWriter()).finish();

interface Part {
  readonly type: 'number' | 'bytes' | 'fixed';
  readonly bytes: Uint8Array;
}

function partOf({ raw }: Field): Part {
  const reader = new WireReader(raw);
  reader.next();
  const type = raw[0]! % 8;
  if (type === 2) return { type: 'bytes', bytes: reader.bytes() };
  return { type: type === 0 ? 'number' : 'fixed', bytes: raw };
}

const withBytes = ({ number }: Field, bytes: Uint8Array): Field => ({
  number,
  raw: new WireWriter().bytes(number, bytes).finish(),
});
const withNumber = ({ number }: Field, value: bigint): Field => ({
  number,
  raw: new WireWriter().uint64(number, value).finish(),
});

function flipped(bytes: Uint8Array, random: Random): Uint8Array {
  const copy = Uint8Array.from(bytes);
  if (copy.length > 0) copy[random(copy.length)]! ^= 1 << random(8);
  return copy;
}

function otherValue(field: Field, random: Random): Field {
  const { type, bytes } = partOf(field);
  if (type === 'number') return withNumber(field, pick(random, numbers));
  if (type === 'fixed') return { ...field, raw: flipped(bytes, random) };
  const ways = [
    () => new TextEncoder().encode(pick(random, texts)),
    () => new TextEncoder().encode(pick(random, texts)),
    () => bytes.subarray(0, random(bytes.length + 1)),
    () => flipped(bytes, random),
    () => Buffer.concat([bytes, bytes]),
  ];
  return withBytes(field, pick(random, ways)());
}

type How = (what: string) => void;

/** One change somewhere in the message; the deeper, the more there is to change. */
function mutated(message: Uint8Array, shape: Shape, random: Random, how: How): Uint8Array {
  const fields = fieldsIn(message);
  if (fields.length === 0) return message;
  const at = random(fields.length);
  const field = fields[at]!;
  const inner = shape[field.number];
  const { type, bytes } = partOf(field);
  if (inner !== undefined && type === 'bytes' && random(8) !== 0) {
    how(`${field.number}.`);
    return join(fields.with(at, withBytes(field, mutated(bytes, inner, random, how))));
  }
  const ways: Readonly<Record<string, () => readonly Field[]>> = {
    'other value': () => fields.with(at, otherValue(field, random)),
    'another value': () => fields.with(at, otherValue(field, random)),
    removed: () => fields.toSpliced(at, 1),
    doubled: () => fields.toSpliced(at, 0, field),
    swapped: () => {
      const other = random(fields.length);
      return fields.with(at, fields[other]!).with(other, field);
    },
    'of another': () => fields.toSpliced(random(fields.length), 0, pick(random, fields)),
    'a number': () => [...fields, withNumber({ ...field, number: 1 + random(24) }, pick(random, numbers))],
    'a text': () => [
      ...fields,
      withBytes({ ...field, number: 1 + random(24) }, new TextEncoder().encode(pick(random, texts))),
    ],
  };
  const name = pick(random, Object.keys(ways));
  how(`${field.number} ${name}`);
  return join(ways[name]!());
}

function mutatedFile(file: Buffer, random: Random, how: How): Buffer {
  const sections = sectionsOf(file);
  const kind = random(20);
  if (kind === 0) {
    how('bytes');
    return Buffer.from(flipped(file, random));
  }
  if (kind < 5 && sections.indexes !== undefined) {
    how('indexes ');
    return manifestFileOf({ ...sections, indexes: mutated(sections.indexes, indexSectionShape, random, how) }, file);
  }
  if (kind < 7 && sections.transaction !== undefined) {
    how('transaction ');
    return manifestFileOf({ ...sections, transaction: mutated(sections.transaction, none, random, how) }, file);
  }
  return manifestFileOf({ ...sections, message: mutated(sections.message, manifestShape, random, how) }, file);
}

/** One to three changes. */
export function mutatedManifest(file: Buffer, random: Random): { readonly bytes: Buffer; readonly how: string } {
  const how: string[] = [];
  let bytes = file;
  for (let left = 1 + Math.floor(random(5) / 2); left > 0; left -= 1) {
    let what = '';
    try {
      bytes = mutatedFile(bytes, random, (part) => (what += part));
    } catch {
      what = 'nothing more'; // what was done before left no whole manifest
    }
    how.push(what);
  }
  return { bytes, how: how.join(', ') };
}
