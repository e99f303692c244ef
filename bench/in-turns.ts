/** What two loads measured, in the order of their turns. */
interface InTurns<First, Second> {
  readonly first: readonly First[];
  readonly second: readonly Second[];
}

/**
 * Two loads in turns, with a different one first each time: what the machine, its disk and a growing table do, they do to
 * both.
 */
export async function inTurns<First, Second>(
  rounds: number,
  runFirst: () => Promise<First>,
  runSecond: () => Promise<Second>,
): Promise<InTurns<First, Second>> {
  const first: First[] = [];
  const second: Second[] = [];
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 0) first.push(await runFirst());
    second.push(await runSecond());
    if (round % 2 === 1) first.push(await runFirst());
  }
  return { first, second };
}
