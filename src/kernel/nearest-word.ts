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
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = above[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, above[column]! + 1, current[column - 1]! + 1));
    }
    above = current;
  }
  return above[b.length]!;
}
