import type { Location } from './ids.ts';

/** `loose`: the file system treats names that differ only in case or Unicode form as equal. */
export type Spelling = 'exact' | 'loose';

/** Names that are the same under this spelling become equal. */
export const speltAs = (text: string, spelling: Spelling): string =>
  spelling === 'exact' ? text : text.normalize('NFC').toLowerCase();

/** Says whether the two are the same location, or one is inside the other. */
export function overlap(one: Location, other: Location, spelling: Spelling): boolean {
  const [a, b] = [`${speltAs(one, spelling)}/`, `${speltAs(other, spelling)}/`];
  return a.startsWith(b) || b.startsWith(a);
}
