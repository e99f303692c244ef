/** What has to be true of a release: each check returns what is wrong. */

export interface ReleaseTexts {
  readonly version: string;
  readonly lockVersion: string;
  readonly changelog: string;
  /** Pages that name the tarball. */
  readonly pages: readonly { readonly path: string; readonly text: string }[];
  readonly tags: readonly string[];
}

/** The changelog's newest head has the version and a day; `0.2.0, not released` has none. */
export function versionProblems({ version, lockVersion, changelog, pages, tags }: ReleaseTexts): readonly string[] {
  const [, head = '', day] = /^## ([^,\n]+)(?:, (\d{1,2} \w+ \d{4}))?/m.exec(changelog) ?? [];
  const strangers = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/lancegate-(\d+\.\d+\.\d+)\.tgz/g)]
      .filter(([, named]) => named !== version)
      .map(([name]) => `${path} names ${name}`),
  );
  return [
    ...(lockVersion === version ? [] : [`package-lock.json has ${lockVersion}, package.json ${version}`]),
    ...(head === version ? [] : [`CHANGELOG.md begins with ${head}, package.json has ${version}`]),
    ...(day === undefined ? [`CHANGELOG.md has no day for ${head}`] : []),
    ...(tags.includes(`v${version}`) ? [`the tag v${version} is there already`] : []),
    ...strangers,
  ];
}

const belongs = /^(?:bin|dist|docs|samples)\/|^(?:package\.json|README\.md|LICENSE|CHANGELOG\.md|SECURITY\.md)$/;
const needed = [
  'bin/lancegate.js',
  'dist/main.js',
  'dist/reader.js',
  'samples/capitals.ndjson',
  'docs/design/commit.md',
  'LICENSE',
];
const mostPackedBytes = 5 * 2 ** 20;

export function contentProblems(paths: readonly string[], packedBytes: number): readonly string[] {
  return [
    ...paths.filter((path) => !belongs.test(path) || path.endsWith('.ts')).map((path) => `${path} would be published`),
    ...needed.filter((path) => !paths.includes(path)).map((path) => `${path} would be missing`),
    ...(packedBytes > mostPackedBytes ? [`the package has ${packedBytes} bytes, at most ${mostPackedBytes}`] : []),
  ];
}

export interface Licensed {
  readonly name: string;
  /** As SPDX has it. */
  readonly license: string | undefined;
}

const allowed = new Set([
  'Apache-2.0',
  'MIT',
  'ISC',
  '0BSD',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'Unlicense',
]);

export const licenceProblems = (packages: readonly Licensed[]): readonly string[] =>
  packages
    .filter(({ license }) => license === undefined || !license.split(/ OR |[()]/).some((each) => allowed.has(each)))
    .map(({ name, license }) => `${name} has the licence ${license ?? 'that it does not name'}`);
