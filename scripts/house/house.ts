/** The repository as the checks of this folder read it: code with its comments and words, and the documents. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** A comment of a file of code, or a whole document. */
export interface Passage {
  readonly path: string;
  /** Of its first character; the first line is 1. */
  readonly line: number;
  readonly text: string;
}

export interface CodeFile {
  readonly path: string;
  readonly tree: ts.SourceFile;
  readonly comments: readonly Passage[];
}

export interface House {
  readonly code: readonly CodeFile[];
  readonly documents: readonly Passage[];
  /** Every file and, with a slash at the end, every folder, from the root. */
  readonly paths: ReadonlySet<string>;
}

export interface Violation {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

const codeFolders = ['src', 'test', 'bench', 'scripts', 'bin', '.ci'];

export function readHouse(root: string): House {
  const found = globSync([...codeFolders.map((folder) => `${folder}/**/*`), '{docs,deploy,samples}/**/*', '*', '.*'], {
    cwd: root,
    withFileTypes: true,
    exclude: (entry) => entry.name === 'node_modules' || entry.name === '.git',
  });
  const paths = found
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1) + (entry.isDirectory() ? '/' : ''))
    .sort();
  const read = (path: string): string => readFileSync(join(root, path), 'utf8');
  return {
    code: paths.filter((path) => /[.]tsx?$/.test(path)).map((path) => codeFile(path, read(path))),
    documents: paths.filter((path) => path.endsWith('.md')).map((path) => ({ path, line: 1, text: read(path) })),
    paths: new Set(paths),
  };
}

function codeFile(path: string, text: string): CodeFile {
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  return { path, tree, comments: commentsOf(path, tree) };
}

/** What a program may hold that looks like a comment and is none. */
const isLiteral = (node: ts.Node): node is ts.LiteralLikeNode =>
  ts.isStringLiteralLike(node) ||
  ts.isRegularExpressionLiteral(node) ||
  node.kind === ts.SyntaxKind.TemplateHead ||
  node.kind === ts.SyntaxKind.TemplateMiddle ||
  node.kind === ts.SyntaxKind.TemplateTail;

function commentsOf(path: string, tree: ts.SourceFile): readonly Passage[] {
  let code = tree.text;
  for (const literal of nodesOf(tree).filter(isLiteral)) {
    const start = literal.getStart(tree);
    code = code.slice(0, start) + 'x'.repeat(literal.end - start) + code.slice(literal.end);
  }
  return [...code.matchAll(/\/\*[\s\S]*?\*\/|\/\/.*/g)].map(({ 0: text, index }) => ({
    path,
    line: lineOf(tree, index),
    text,
  }));
}

/** Every node below and with this one, in the order of the text. */
export function nodesOf(node: ts.Node): readonly ts.Node[] {
  const nodes: ts.Node[] = [];
  const visit = (each: ts.Node): void => {
    nodes.push(each);
    ts.forEachChild(each, visit);
  };
  visit(node);
  return nodes;
}

export const lineOf = (tree: ts.SourceFile, position: number): number =>
  tree.getLineAndCharacterOfPosition(position).line + 1;

/** The words of the code: of its identifiers and of its literals, and the literals themselves. */
export function wordsOf(code: readonly CodeFile[]): ReadonlySet<string> {
  const words = new Set<string>();
  for (const node of code.flatMap(({ tree }) => nodesOf(tree))) {
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) words.add(node.text.replace('#', ''));
    if (!isLiteral(node)) continue;
    words.add(node.text);
    for (const [word] of node.text.matchAll(/[\w$]+/g)) words.add(word);
  }
  return words;
}
