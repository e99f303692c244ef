import { invalidInput } from '../kernel/errors.ts';
import type { Page } from '../operations/visible-page.ts';
import type { QueryParameters } from './query-parameters.ts';

/** `limit` is an upper bound, so a page may hold fewer; clients follow the token. */
const maxPageItems = 1000;

/** `page_token` and `limit`; an empty token starts at the beginning. */
export function readPage(query: QueryParameters): Page {
  const after = query.text('page_token');
  const limit = query.one('limit', (text) => parseLimit(text ?? ''));
  return { after: after === '' ? undefined : after, limit: Math.min(limit ?? maxPageItems, maxPageItems) };
}

function parseLimit(text: string): number {
  if (/^\d{1,10}$/.test(text) && Number(text) > 0) return Number(text);
  throw invalidInput('limit: expected a whole number above zero');
}
