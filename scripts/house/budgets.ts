/**
 * What splitting does not make smaller: how much of some things all of src has. The most of each stands in budgets.json, and is lowered
 * with what it counts; who raises it says why in the same commit.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { type CodeFile, type House, nodesOf, type Violation } from './house.ts';

const path = 'scripts/house/budgets.json';

/** None where the repository has no budgets. */
export function budgets(root: string, { code, paths }: House): readonly Violation[] {
  if (!paths.has(path)) return [];
  const most = JSON.parse(readFileSync(join(root, path), 'utf8')) as Readonly<Record<string, number>>;
  const source = code.filter((file) => file.path.startsWith('src/'));
  const counted: Readonly<Record<string, number>> = countsOf(source);
  return Object.entries(most).flatMap(([what, limit]) => {
    const count = counted[what];
    if (count === undefined) return [{ path, line: 1, text: `nothing counts "${what}"` }];
    return count > limit ? [{ path, line: 1, text: `src has ${count} ${what}, at most ${limit}` }] : [];
  });
}

function countsOf(source: readonly CodeFile[]) {
  const nodes = source.flatMap(({ tree }) => nodesOf(tree));
  const count = (is: (node: ts.Node) => boolean): number => nodes.filter(is).length;
  return {
    lines: source.reduce((sum, { tree }) => sum + tree.text.split('\n').length - 1, 0),
    'numeric constants': source.reduce((sum, { tree }) => sum + numericConstants(tree), 0),
    'non-null assertions': count(ts.isNonNullExpression),
    casts: count((node) => ts.isAsExpression(node) && node.type.getText() !== 'const'),
    'errors without a name': count((node) => ts.isNewExpression(node) && node.expression.getText() === 'Error'),
    'functions named commit': count(isNamedCommit),
    'members of Dataset': membersOf('Dataset', nodes),
    'members of Catalog': membersOf('Catalog', nodes),
    settings: source
      .filter(({ path }) => path.startsWith('src/config/'))
      .flatMap(({ tree }) => nodesOf(tree))
      .filter(isFlag).length,
  };
}

const isFlag = (node: ts.Node): boolean =>
  ts.isPropertyAssignment(node) && node.name.getText() === 'flag' && ts.isStringLiteral(node.initializer);

/** Of a module: a number, or a product of numbers. */
const numericConstants = (tree: ts.SourceFile): number =>
  tree.statements
    .filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => declarationList.declarations)
    .filter(({ initializer }) => initializer !== undefined && /^[\d_.\s*+\-/()]+n?$/.test(initializer.getText()))
    .length;

const isNamedCommit = (node: ts.Node): boolean =>
  (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) &&
  node.body !== undefined &&
  /^#?commit$/.test(node.name?.getText() ?? '');

/** With those of the interfaces that it extends. */
function membersOf(name: string, nodes: readonly ts.Node[]): number {
  const declared = nodes.filter(ts.isInterfaceDeclaration).find((node) => node.name.text === name);
  const extended = (declared?.heritageClauses ?? []).flatMap(({ types }) => types);
  return extended.reduce(
    (sum, { expression }) => sum + membersOf(expression.getText(), nodes),
    declared?.members.length ?? 0,
  );
}
