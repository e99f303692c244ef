/** How places on storage compare. */
import type { Location } from './ids.ts';

/** `loose`: the file system takes names that differ in case, or in their Unicode form, for one and the same. */
export type Spelling = 'exact' | 'loose';

/** Equal for names that are the same under this spelling. */
export const speltAs = (text: string, spelling: Spelling): string =>
  spelling === 'exact' ? text : text.normalize('NFC').toLowerCase();

/** True where the two are one place, or one lies inside the other. */
export function overlap(one: Location, other: Location, spelling: Spelling): boolean {
  const [a, b] = [`${speltAs(one, spelling)}/`, `${speltAs(other, spelling)}/`];
  return a.startsWith(b) || b.startsWith(a);
}
