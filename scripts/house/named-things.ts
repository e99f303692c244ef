/**
 * What comments and documents name must exist: files, folders, decisions, and the names of our code. A name is checked where
 * it cannot be a plain word: it has a capital inside it (`readHouse`), a dot (`ts.Node`) or a call (`nodesOf()`); in a
 * comment also without backticks. A name that our code has as an identifier or inside a string exists. So fields of the
 * format, SQL, HTTP headers and options of other programs need no list: they are in our code, or are spelled otherwise.
 */
import { dirname, join } from 'node:path';
import { type House, type Passage, type Violation, wordsOf } from './house.ts';
import { outsideNames } from './outside-names.ts';

/** They say what was true on their day: their links are checked, what they name is not. */
const isDated = ({ path }: Passage): boolean => /^docs\/(adr|measurements)\//.test(path);

/** The tests of these checks hold wrong names on purpose. */
const isOfService = ({ path }: { readonly path: string }): boolean => !path.startsWith('test/scripts/');

interface Known {
  readonly paths: ReadonlySet<string>;
  /** Every end of every path, from a slash on. */
  readonly pathEnds: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
}

/** Finds what a text names that does not exist. */
type Search = (passage: Passage, known: Known) => readonly Found[];

interface Found {
  readonly index: number;
  readonly text: string;
}

export function namedThings(house: House): readonly Violation[] {
  const known: Known = {
    paths: house.paths,
    pathEnds: endsOf(house.paths),
    words: wordsOf(house.code.filter(isOfService)),
  };
  const inComments = house.code.flatMap(({ comments }) => comments);
  const inDocuments = house.documents.map((document) => ({ ...document, text: withoutFences(document.text) }));
  const search = (passages: readonly Passage[], searches: readonly Search[]) =>
    passages.flatMap((passage) => searches.flatMap((each) => each(passage, known).map((found) => at(passage, found))));
  return [
    ...search(inComments, [absentPaths, absentDecisions, absentNames, absentBareNames, outsideDocuments]),
    ...search(inDocuments, [absentLinks, outsideDocuments]),
    ...search(house.code.map(textOf).concat(inDocuments).filter(isOfSource), [citedDecisions]),
    ...search(
      inDocuments.filter((document) => !isDated(document)),
      [absentPaths, absentDecisions, absentNames],
    ),
  ];
}

const at = ({ path, line, text }: Passage, found: Found): Violation => ({
  path,
  line: line + text.slice(0, found.index).split('\n').length - 1,
  text: found.text,
});

/** Code blocks are the reader's own files and programs. Their lines stay, so that line numbers do. */
const withoutFences = (text: string): string =>
  text.replace(/^( *)```[\s\S]*?^\1```$/gm, (block) => block.replace(/[^\n]/g, ' '));

function endsOf(paths: ReadonlySet<string>): ReadonlySet<string> {
  const ends = new Set<string>();
  for (const path of paths) {
    for (let from = 0; ; ) {
      ends.add(path.slice(from));
      from = path.indexOf('/', from) + 1;
      if (from === 0 || from === path.length) break;
    }
  }
  return ends;
}

const matches = (text: string, pattern: RegExp): readonly RegExpExecArray[] => [...text.matchAll(pattern)];

/** `write/commit.ts` may be named from any folder on its path; folders are named in backticks. */
function absentPaths({ path: by, text }: Passage, { paths, pathEnds }: Known): readonly Found[] {
  const files = matches(text, /(?<![\w/.*…{}<>:-]|\]\()(?:[\w.@-]+\/)*[\w.-]+\.(?:ts|cjs|md)\b(?![\w/*])/g);
  const folders = matches(text, /(?<=`)([\w.-]+\/)(?:[\w.-]+\/)*(?=`)/g).filter(({ 1: first = '' }) =>
    pathEnds.has(first),
  );
  return [...files, ...folders].flatMap(({ 0: path, index }) => {
    const beside = join(dirname(by), path);
    const exists = pathEnds.has(path) || paths.has(beside);
    return exists ? [] : [{ index, text: `${path} is not in the repository` }];
  });
}

function absentDecisions({ text }: Passage, { paths }: Known): readonly Found[] {
  const numbers = new Set([...paths].map((path) => /^docs\/adr\/(\d{4})-/.exec(path)?.[1]));
  return matches(text, /\bADRs? (\d+)(?:(?:,| and) (\d+))*/g).flatMap(({ 0: citation, index }) =>
    matches(citation, /\d+/g)
      .filter(([number]) => !numbers.has(number.padStart(4, '0')))
      .map(([number]) => ({ index, text: `ADR ${number} is not in docs/adr` })),
  );
}

const isOfSource = ({ path }: Passage): boolean => path.startsWith('src/');

/** Messages to clients cite as comments do. */
const textOf = ({ path, tree }: House['code'][number]): Passage => ({ path, line: 1, text: tree.text });

/** Decisions are history: code states its rule, or names the page of the present design. */
function citedDecisions({ text }: Passage): readonly Found[] {
  return matches(text, /\bADRs?\b|\badr\/\d*/g).map(({ 0: citation, index }) => ({
    index,
    text: `"${citation}" is a decision, which no code cites: docs/design/ has the present design`,
  }));
}

const word = String.raw`[A-Za-z_$][\w$]*`;
const nameWithParts = new RegExp(String.raw`^#?${word}(?:\.#?${word})+(?:\(\))?$|^#?${word}\(\)$`);
const capitalInside = /(?<![\w$.+-])(?:[A-Z_]\w*)?[a-z]\w*[A-Z]\w*(?![\w-])/g;
/** A file of the reader's or of the service, not a name in code. */
const fileEnding =
  /\.(?:json|js|lance|manifest|txn|bin|arrow|sqlite|parquet|csv|jsonl|yaml|yml|cedar|md|ts|cjs|com|org|invalid)$/;

const isUnknown =
  (words: ReadonlySet<string>) =>
  (name: string): boolean =>
    !words.has(name) && !outsideNames.has(name);

function absentNames({ text }: Passage, { words }: Known): readonly Found[] {
  return matches(text, /`([^`\n]+)`/g).flatMap(({ 1: span = '', index }) =>
    namesIn(span)
      .filter(isUnknown(words))
      .map((name) => ({ index, text: `\`${name}\` is not in the code` })),
  );
}

function namesIn(span: string): readonly string[] {
  if (fileEnding.test(span)) return [];
  if (nameWithParts.test(span)) return span.replace('()', '').replaceAll('#', '').split('.');
  return matches(span, capitalInside).map(([name]) => name);
}

function absentBareNames({ text }: Passage, { words }: Known): readonly Found[] {
  const plain = text.replace(/`[^`\n]*`|\S+:\/\/\S+/g, (quoted) => ' '.repeat(quoted.length));
  return matches(plain, capitalInside)
    .filter(([name]) => [name, name.replace(/s$/, ''), name.replace(/es$/, '')].every(isUnknown(words)))
    .map(({ 0: name, index }) => ({ index, text: `${name} is not in the code` }));
}

function absentLinks({ path: by, text }: Passage, { paths }: Known): readonly Found[] {
  return matches(text, /\]\(([^)\s#]+)(?:#[^)]*)?\)/g).flatMap(({ 1: target = '', index }) => {
    if (/^\w+:/.test(target)) return [];
    const path = join(dirname(by), target).replace(/\/$/, '');
    return paths.has(path) || paths.has(`${path}/`) ? [] : [{ index, text: `the link to ${target} leads nowhere` }];
  });
}

/** A reader of the repository cannot follow these. */
const documentsOutside =
  /engine[-\s]+notes|platform[-\s]+notes|founding\s+document|house[-\s]+review|wire[-\s]+contract|\bdesign,\s+(?:flow|section)|\bflow\s+rule\s+\d/gi;

function outsideDocuments({ text }: Passage): readonly Found[] {
  const withoutStars = text.replace(/\n\s*\*/g, (margin) => ' '.repeat(margin.length));
  return matches(withoutStars, documentsOutside).map(({ 0: name, index }) => ({
    index,
    text: `"${name.replace(/\s+/g, ' ')}" is a document that is not in the repository`,
  }));
}
