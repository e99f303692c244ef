/**
 * Makes `dist`, which the package has in the place of `src`: JavaScript that Node 22 reads, one file for each of TypeScript; and
 * in `dist/vendor` the packages that would bring a user of ours more than we use, with their licences.
 *   node scripts/build.ts
 */
import { copyFileSync, existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { build, type Metafile } from 'esbuild';

const root = join(import.meta.dirname, '..');
const source = join(root, 'src');
const dist = join(root, 'dist');
const vendor = join(dist, 'vendor');
const packages = join(root, 'node_modules');

/** Each is the first file of a process or a thread. */
const programs: ReadonlySet<string> = new Set([
  'main.ts',
  'reader.ts',
  'auth/policy/policy-trial-thread.ts',
  'rows/bodies/conversion-thread.ts',
  'load/file-thread.ts',
  'engine/lance/commit/file-writer-thread.ts',
]);

/**
 * Imports of `src` that become one file of `dist/vendor`. LanceDB's package can install clients of models, of hundreds of megabytes; its
 * native part is a package of its own, which package.json names. Amazon's is three times as large with its types and other forms, and
 * of hyparquet one function is used.
 */
const bundled: Readonly<Record<string, readonly string[]>> = {
  'lancedb.cjs': ['@lancedb/lancedb'],
  'aws.cjs': ['@aws-sdk/client-s3', '@aws-sdk/lib-storage'],
  'hyparquet.cjs': ['hyparquet'],
};
const neverBundled = [
  'apache-arrow',
  '@lancedb/lancedb-*',
  '*.node',
  '*.wasi.cjs',
  'openai',
  '@huggingface/transformers',
];

/** Files that are taken as they are. Cedar and the reader of Parquet have three forms, and Swagger UI's package runs a script that counts installations. */
const copied: Readonly<Record<string, string>> = {
  '@cedar-policy/cedar-wasm/nodejs/cedar_wasm.js': 'cedar_wasm.cjs',
  '@cedar-policy/cedar-wasm/nodejs/cedar_wasm_bg.wasm': 'cedar_wasm_bg.wasm',
  'parquet-wasm/node/parquet_wasm.js': 'parquet_wasm.cjs',
  'parquet-wasm/node/parquet_wasm_bg.wasm': 'parquet_wasm_bg.wasm',
  'swagger-ui-dist/swagger-ui.css': 'swagger-ui.css',
  'swagger-ui-dist/swagger-ui-bundle.js': 'swagger-ui-bundle.js',
};

const vendorFileOf = new Map([
  ...Object.entries(bundled).flatMap(([file, names]) => names.map((name) => [name, file] as const)),
  ['@cedar-policy/cedar-wasm/nodejs', 'cedar_wasm.cjs'],
  ['parquet-wasm/node', 'parquet_wasm.cjs'],
]);

/** Of the language's library; core-js does nothing where Node has them. `scripts/test-package.sh` runs the package on Node 22. */
const missingInNode22 = ['disposable-stack', 'async-disposable-stack', 'suppressed-error'];

const common = {
  platform: 'node',
  target: 'node22.16',
  logLevel: 'warning',
  legalComments: 'inline',
  banner: { js: '/* Made by scripts/build.ts. */' },
} as const;

async function makeDist(): Promise<void> {
  rmSync(dist, { recursive: true, force: true });
  const files = globSync('**/*.ts', { cwd: source });
  const entryPoints = files.map((file) => join(source, file));
  await build({ ...common, entryPoints, outbase: source, outdir: dist, format: 'esm' });
  const inputs = await Promise.all([
    ...Object.entries(bundled).map(([file, names]) => bundle(file, exportsFor(names, files))),
    bundle('node-22.js', missingInNode22.map((name) => `import 'core-js/actual/${name}';`).join('\n')),
  ]);
  for (const [from, to] of Object.entries(copied)) copyFileSync(join(packages, from), join(vendor, to));
  for (const file of files) pointIntoDist(file);
  const names = new Set([...inputs.flat(), ...Object.keys(copied)].map(packageOf));
  writeFileSync(join(vendor, 'LICENSES.md'), licencesOf([...names].toSorted()));
}

/** Returns the files that went in, below `node_modules`. */
async function bundle(file: string, contents: string): Promise<readonly string[]> {
  const { metafile }: { metafile: Metafile } = await build({
    ...common,
    stdin: { contents, resolveDir: root },
    absWorkingDir: root,
    outfile: join(vendor, file),
    bundle: true,
    metafile: true,
    format: file.endsWith('.cjs') ? 'cjs' : 'esm',
    external: neverBundled,
  });
  return Object.keys(metafile.inputs)
    .filter((input) => input.startsWith('node_modules/'))
    .map((input) => input.slice('node_modules/'.length));
}

const importOf = /import (?:type )?\{([^}]*)\} from '([^']+)'/g;

/** A module that exports what `src` imports of these packages. */
function exportsFor(names: readonly string[], files: readonly string[]): string {
  const imports = files.flatMap((file) => [...readFileSync(join(source, file), 'utf8').matchAll(importOf)]);
  return names
    .map((name) => {
      const lists = imports.filter(([text, , from]) => from === name && !text.startsWith('import type'));
      const values = lists.flatMap(([, list]) => list!.split(',').map((each) => each.trim()));
      const used = new Set(values.filter((each) => each !== '' && !each.startsWith('type ')));
      return `export { ${[...used].join(', ')} } from '${name}';`;
    })
    .join('\n');
}

/** A path of ours that ends in `.ts`, in an import or as the file of a process or thread. */
const ownPath = /(["'])(\.{1,2}\/[\w./-]+)\.ts\1/g;
/** Of a package, as esbuild writes it; not a text that has one, such as a program that we print. */
const importOfPackage = /(^(?:import|export)\b[^"'`;]*?\bfrom |\bimport\()"([^".][^"]*)"/gm;

function pointIntoDist(file: string): void {
  const path = join(dist, file.replace(/ts$/, 'js'));
  const inVendor = (name: string): string => {
    const way = relative(dirname(path), join(vendor, name));
    return way.startsWith('.') ? way : `./${way}`;
  };
  const prelude = programs.has(file) ? `import "${inVendor('node-22.js')}";\n` : '';
  const text = readFileSync(path, 'utf8')
    .replace(ownPath, '$1$2.js$1')
    .replace(importOfPackage, (all, before: string, name: string) => {
      const vendored = vendorFileOf.get(name);
      return vendored === undefined ? all : `${before}"${inVendor(vendored)}"`;
    });
  for (const [, named] of text.matchAll(/["'](\.{1,2}\/[\w./-]+\.c?js)["']/g)) {
    if (!existsSync(resolve(dirname(path), named!))) throw new Error(`${path} names ${named}, which is not built`);
  }
  writeFileSync(path, prelude + text);
}

/** Of a path below `node_modules`; the innermost, where packages are nested. */
function packageOf(path: string): string {
  const [, outer = '', name = ''] = /^(.*node_modules\/)?((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
  return outer + name;
}

/** Each text once, below the packages that have it. */
function licencesOf(names: readonly string[]): string {
  const byText = Map.groupBy(names, (name) => {
    const folder = join(packages, name);
    const files = globSync(['LICENSE{,.md,.txt}', 'LICENCE*', 'NOTICE*'], { cwd: folder }).toSorted();
    return files.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n');
  });
  return [...byText].map(([text, those]) => `${those.map(titleOf).join('\n')}\n\n${text}`).join('\n\n');
}

function titleOf(name: string): string {
  const { version, license } = JSON.parse(readFileSync(join(packages, name, 'package.json'), 'utf8')) as {
    readonly version: string;
    readonly license: string;
  };
  return `# ${name} ${version}: ${license}`;
}

await makeDist();
