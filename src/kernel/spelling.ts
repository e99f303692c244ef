import type { Location } from './ids.ts';
import { paired } from './paired.ts';

/** The known word nearest to a mistyped one, if it is near enough to be meant. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  const furthest = word.length < 4 ? 1 : Math.max(2, Math.floor(word.length / 3));
  const ranked = [...known]
    .map((candidate) => ({ candidate, distance: editDistance(word, candidate) }))
    .filter(({ distance }) => distance <= furthest)
    .sort((a, b) => a.distance - b.distance);
  return ranked[0]?.candidate;
}

export function didYouMean(word: string, known: Iterable<string>, show: (found: string) => string = String): string {
  const found = nearest(word, known);
  return found === undefined ? '' : `; did you mean ${show(found)}?`;
}

/** Levenshtein distance, one row at a time. */
export function editDistance(a: string, b: string): number {
  let above = Array.from(b, (_, column) => column + 1);
  let distance = above.length;
  for (const [row, letter] of [...a].entries()) {
    let aboveLeft = row;
    distance = row + 1;
    above = paired([...b], above).map(([other, aboveIt]) => {
      distance = Math.min(aboveLeft + (letter === other ? 0 : 1), aboveIt + 1, distance + 1);
      aboveLeft = aboveIt;
      return distance;
    });
  }
  return distance;
}

/** `loose`: the file system treats names that differ only in case or Unicode form as equal. */
export type Spelling = 'exact' | 'loose';

/** Equal for names that are the same under this spelling. */
export const speltAs = (text: string, spelling: Spelling): string =>
  spelling === 'exact' ? text : text.normalize('NFC').toLowerCase();

/** Whether the two are the same location, or one is inside the other. */
export function overlap(one: Location, other: Location, spelling: Spelling): boolean {
  const [a, b] = [`${speltAs(one, spelling)}/`, `${speltAs(other, spelling)}/`];
  return a.startsWith(b) || b.startsWith(a);
}
