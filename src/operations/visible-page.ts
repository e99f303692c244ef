import type { Page } from '../wire/query-parameters.ts';

export interface Listing<Item> {
  readonly items: readonly Item[];
  /** The next page starts there; undefined at the end. */
  readonly next: string | undefined;
}

/** Whether the principal may see a listed object: the policy's decision. */
export type Visible<Item> = (item: Item) => boolean;

/**
 * Returns one page of the rows that may be seen. What may not be seen is skipped without a trace: neither a gap, nor a short
 * page, nor a token that goes nowhere tells that something is there (P9). Costs one policy decision per row looked at.
 */
export async function visiblePage<Row>(
  page: Page,
  fetch: (page: Page) => Promise<readonly Row[]>,
  cursorOf: (row: Row) => string,
  isVisible: (row: Row) => boolean,
): Promise<Listing<Row>> {
  const wanted = page.limit + 1;
  const rows: Row[] = [];
  let after = page.after;
  while (rows.length < wanted) {
    const batch = await fetch({ after, limit: wanted });
    rows.push(...batch.filter(isVisible));
    const last = batch.at(-1);
    if (last === undefined || batch.length < wanted) break;
    after = cursorOf(last);
  }
  const items = rows.slice(0, page.limit);
  const last = items.at(-1);
  return { items, next: rows.length > page.limit && last !== undefined ? cursorOf(last) : undefined };
}

/** Returns one page of rows that are all there, by their names. */
export function visiblePageByName<Row extends { readonly name: string }>(
  page: Page,
  rows: readonly Row[],
  isVisible: (row: Row) => boolean,
): Promise<Listing<Row>> {
  const sorted = rows.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const fetch = async ({ after, limit }: Page) =>
    sorted.filter(({ name }) => after === undefined || name > after).slice(0, limit);
  return visiblePage(page, fetch, ({ name }) => name, isVisible);
}
