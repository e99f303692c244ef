import { paired } from './paired.ts';

/** Returns the known word nearest to a mistyped one, if it is near enough to be meant. */
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

/** Computes the Levenshtein distance, one row at a time. */
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
