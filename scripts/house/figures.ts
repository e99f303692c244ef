/** The figures of the house: how much stands in one interface, and that a name means one thing. */
import { basename } from 'node:path';
import ts from 'typescript';
import { type CodeFile, type House, lineOf, nodesOf, type Passage, type Violation } from './house.ts';

const mostMembersOfPort = 10;
const mostLinesOfTestFunction = 60;
const mostLinesOfDesign = 120;

/**
 * Each is all of a port: it joins the small interfaces, and has more members than one of them may. An adapter implements it, and
 * what keeps it or hands it on to others names it. What calls its members takes the small interfaces.
 */
const wholePorts: ReadonlySet<string> = new Set(['Dataset', 'Catalog', 'Engine']);
/** With the rooms of the ports, where the adapters are, the only ones that may name a whole port. */
const holdersOfWholes: ReadonlySet<string> = new Set([
  'src/operations/operations.ts',
  'src/stored-state.ts',
  'src/table/open-datasets.ts',
]);
const roomsOfPorts = /^src\/(?:engine|catalog)\//;

/** Its longest function is a table: each request with the record that it leaves. */
const tablesInFunctions: ReadonlySet<string> = new Set(['test/http/audit.test.ts']);

/** File names that mean the same in every room that has one: a kind of file, or the subject of a route, use case or query. */
const sharedFileNames: ReadonlySet<string> = new Set([
  ...[
    'request.ts',
    'branches.ts',
    'describe-table.ts',
    'maintain-table.ts',
    'metrics.ts',
    'namespaces.ts',
    'tables.ts',
  ],
  // The command that handles a thing is named after it.
  'issuer-key.ts',
]);

/** Type names that mean the same in every file that has one: `Deps` is what the functions of its file get. */
const sharedTypeNames: ReadonlySet<string> = new Set(['Deps']);

export function figures({ code, documents }: House): readonly Violation[] {
  const source = code.filter(({ path }) => path.startsWith('src/'));
  return [
    ...largePorts(source.filter(({ path }) => /\/port(?:\/|[.-])/.test(path))),
    ...source.filter(({ path }) => !roomsOfPorts.test(path) && !holdersOfWholes.has(path)).flatMap(takenWholes),
    ...code.flatMap(reExports),
    ...typesWithOneName(source),
    ...filesWithOneName(source),
    ...code.filter(({ path }) => path.startsWith('test/') && !tablesInFunctions.has(path)).flatMap(longTestFunctions),
    ...documents.flatMap(longDesign),
  ];
}

/** A page of the present design is read in one sitting. */
function longDesign({ path, text }: Passage): readonly Violation[] {
  const line = text.split('\n').length - 1;
  if (!path.startsWith('docs/design/') || line <= mostLinesOfDesign) return [];
  return [{ path, line, text: `a page of the design has ${line} lines, at most ${mostLinesOfDesign}` }];
}

const groupBy = <Item>(items: readonly Item[], keyOf: (item: Item) => string): [string, Item[]][] =>
  Object.entries(Object.groupBy(items, keyOf)) as [string, Item[]][];

/** Biome finds those of values. One of types, too, makes a reader open two files. */
const reExports = ({ path, tree }: CodeFile): readonly Violation[] =>
  tree.statements
    .filter((node) => ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined)
    .map((node) => ({
      path,
      line: lineOf(tree, node.getStart(tree)),
      text: 'a re-export: import from the file that declares',
    }));

function largePorts(files: readonly CodeFile[]): readonly Violation[] {
  const declared = files.flatMap(({ path, tree }) =>
    nodesOf(tree)
      .filter(ts.isInterfaceDeclaration)
      .map((node) => ({ path, tree, node })),
  );
  const byName = new Map(declared.map(({ node }) => [node.name.text, node]));
  return declared
    .map(({ path, tree, node }) => ({ path, tree, name: node.name, members: [...membersOf(node, byName)] }))
    .filter(({ name, members }) => !wholePorts.has(name.text) && members.some(isMethod))
    .filter(({ members }) => members.length > mostMembersOfPort)
    .map(({ path, tree, name, members }) => ({
      path,
      line: lineOf(tree, name.getStart(tree)),
      text: `the port ${name.text} has ${members.length} members, at most ${mostMembersOfPort}`,
    }));
}

/** With those of the ports that it extends, each once. */
const membersOf = (
  port: ts.InterfaceDeclaration,
  byName: ReadonlyMap<string, ts.InterfaceDeclaration>,
): ReadonlySet<ts.TypeElement> =>
  new Set([...port.members, ...extendedBy(port, byName).flatMap((other) => [...membersOf(other, byName)])]);

const extendedBy = (
  port: ts.InterfaceDeclaration,
  byName: ReadonlyMap<string, ts.InterfaceDeclaration>,
): readonly ts.InterfaceDeclaration[] =>
  (port.heritageClauses ?? [])
    .flatMap(({ types }) => types)
    .flatMap(({ expression }) => byName.get(expression.getText()) ?? []);

/** A caller of a whole port would depend on members that it does not use. */
const takenWholes = ({ path, tree }: CodeFile): readonly Violation[] =>
  nodesOf(tree)
    .filter(ts.isImportSpecifier)
    .map(({ name, propertyName = name }) => propertyName)
    .filter(({ text }) => wholePorts.has(text))
    .map((name) => ({
      path,
      line: lineOf(tree, name.getStart(tree)),
      text: `${name.text} is all of a port: take the small interfaces that it joins`,
    }));

const isMethod = (member: ts.TypeElement): boolean =>
  ts.isMethodSignature(member) ||
  (ts.isPropertySignature(member) && member.type !== undefined && ts.isFunctionTypeNode(member.type));

interface Declared {
  readonly name: string;
  readonly path: string;
  readonly line: number;
}

function typesWithOneName(source: readonly CodeFile[]): readonly Violation[] {
  return groupBy(source.flatMap(declaredTypes), ({ name }) => name)
    .filter(([name]) => !sharedTypeNames.has(name))
    .filter(([, declared]) => new Set(declared.map(({ path }) => path)).size > 1)
    .flatMap(([, declared]) =>
      declared.map(({ name, path, line }) => ({
        path,
        line,
        text: `the type ${name} is also declared in ${others(declared, path)}`,
      })),
    );
}

const others = (all: readonly { path: string }[], path: string): string =>
  all
    .map((other) => other.path)
    .filter((other) => other !== path)
    .join(', ');

const declaredTypes = ({ path, tree }: CodeFile): readonly Declared[] =>
  tree.statements
    .filter((node) => ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isClassDeclaration(node))
    .flatMap(({ name }) =>
      name === undefined ? [] : [{ name: name.text, path, line: lineOf(tree, name.getStart(tree)) }],
    );

const filesWithOneName = (source: readonly CodeFile[]): readonly Violation[] =>
  groupBy(source, ({ path }) => basename(path))
    .filter(([name, files]) => files.length > 1 && !sharedFileNames.has(name))
    .flatMap(([, files]) =>
      files.map(({ path }) => ({ path, line: 1, text: `a file of this name is also ${others(files, path)}` })),
    );

/**
 * Biome holds the length of functions elsewhere. A `describe`, or a suite of contracts, is a list of tests and no function
 * to read at once: so it is passed over, and the tests that a function registers do not count as its lines.
 */
const longTestFunctions = ({ path, tree }: CodeFile): readonly Violation[] =>
  nodesOf(tree)
    .filter(isFunctionWithBody)
    .filter((node) => !isCallOf(node.parent, /^(?:describe|suite)\b/))
    .map((node) => ({ line: lineOf(tree, node.getStart(tree)), lines: ownLines(tree, node) }))
    .filter(({ lines }) => lines > mostLinesOfTestFunction)
    .map(({ line, lines }) => ({
      path,
      line,
      text: `a function of ${lines} lines, at most ${mostLinesOfTestFunction}`,
    }));

const isFunctionWithBody = (node: ts.Node): node is ts.FunctionLikeDeclaration =>
  ts.isFunctionLike(node) && 'body' in node && node.body !== undefined;

const isCallOf = (node: ts.Node, name: RegExp): boolean =>
  ts.isCallExpression(node) && name.test(node.expression.getText());

function ownLines(tree: ts.SourceFile, node: ts.Node): number {
  const registered = nodesOf(node).filter(
    (each) => each !== node && isCallOf(each, /^(?:\w+\.)?(?:describe|suite|test|it)\b/),
  );
  const outermost = registered.filter((each) => !registered.some((other) => other !== each && contains(other, each)));
  return outermost.reduce((lines, each) => lines - linesOf(tree, each), linesOf(tree, node));
}

const linesOf = (tree: ts.SourceFile, node: ts.Node): number =>
  lineOf(tree, node.end) - lineOf(tree, node.getStart(tree)) + 1;

const contains = (outer: ts.Node, inner: ts.Node): boolean => outer.pos <= inner.pos && inner.end <= outer.end;
