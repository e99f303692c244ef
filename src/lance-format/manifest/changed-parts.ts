/** What a version that another program proposes has otherwise than the one before it. Throws `MalformedFile` for what no version has. */
import { dataFormat, field, fragment, index, manifest } from '../messages.ts';
import { type Decoded, decode, MalformedFile } from '../protobuf.ts';
import { indexesIn, nameOfIndex, sectionsOf, uuidText } from './parse-manifest.ts';

export interface ChangedParts {
  /** All fragments where the columns or the format are others. */
  readonly fragments: readonly { readonly id: number; readonly rows: number }[];
  /** By name. */
  readonly indexes: readonly string[];
}

export function changedParts(proposed: Buffer, head: Buffer): ChangedParts {
  const [now, before] = [sectionsOf(proposed), sectionsOf(head)];
  const [known, knownBefore] = [decode(manifest, now.message), decode(manifest, before.message)];
  requireKnownFormat(known, knownBefore);
  const areColumnsSame = formOf(known) === formOf(knownBefore);
  const fragments = areColumnsSame ? others(known.fragments, knownBefore.fragments) : (known.fragments ?? []);
  const indexes = others(indexesIn(now.indexes), areColumnsSame ? indexesIn(before.indexes) : []);
  const ids = new Set((known.fields ?? []).map((each) => decode(field, each, ['id']).id ?? 0));
  for (const each of indexes) requireUsualIndex(each, ids);
  return {
    fragments: fragments.map((each) => {
      const { id = 0, physicalRows: rows = 0 } = decode(fragment, each, ['id', 'physicalRows']);
      return { id, rows };
    }),
    indexes: [...new Set(indexes.map(nameOfIndex))],
  };
}

const formOf = ({ fields = [], dataFormat: format = Buffer.of() }: Decoded<typeof manifest>): string =>
  [...fields, format].map(textOf).join();

function others(now: readonly Uint8Array[] = [], before: readonly Uint8Array[] = []): readonly Uint8Array[] {
  const known = new Set(before.map(textOf));
  return now.filter((each) => !known.has(textOf(each)));
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** Those of `@lancedb/lancedb` 0.39.0. */
const knownVersions = ['0.1', '2.0', '2.1', '2.2'];

function requireKnownFormat(now: Decoded<typeof manifest>, before: Decoded<typeof manifest>): void {
  if (textOf(now.dataFormat ?? Buffer.of()) === textOf(before.dataFormat ?? Buffer.of())) return;
  const { fileFormat = '', version = '' } = now.dataFormat === undefined ? {} : decode(dataFormat, now.dataFormat);
  if (fileFormat === 'lance' && knownVersions.includes(version)) return;
  throw new MalformedFile('its storage version is not known here');
}

/** Those that take part in commits have none of this. */
function requireUsualIndex(encoded: Uint8Array, columns: ReadonlySet<number>): void {
  const { name = '', uuid, fieldIds = [], coverage, details } = decode(index, encoded);
  if (uuidText(uuid).length !== usualUuid) throw new MalformedFile('an index without an identifier');
  if (name.startsWith('__')) return;
  const ids = fieldIds.flat();
  if (name === '' || ids.length === 0 || !ids.every((id) => columns.has(id))) {
    throw new MalformedFile('an index without a name or of no column');
  }
  if (coverage === undefined || details === undefined) {
    throw new MalformedFile(`the index ${name} does not say what it covers and how it was made`);
  }
}

const usualUuid = 36;
