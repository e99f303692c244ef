/** The target of a request line, put into the one form that routes are written for. */
export interface RequestTarget {
  /** Still percent-encoded. */
  readonly path: string;
  /** Without its `?`. */
  readonly queryString: string;
}

/** Splits at the first `?`. A target in absolute form (RFC 9112, 3.2.2) loses its scheme and host. */
export function splitTarget(url: string): RequestTarget {
  const question = url.indexOf('?');
  const whole = question === -1 ? url : url.slice(0, question);
  const queryString = question === -1 ? '' : url.slice(question + 1);
  return { path: whole.replace(/^https?:\/\/[^/]*/i, '') || '/', queryString };
}

export const hasTrailingSlash = (url: string): boolean => splitTarget(url).path.endsWith('/');

/**
 * The target that is routed:
 *
 * - Runs of slashes are one: clients join a base that ends in a slash with `/v1`.
 * - A `+` in the path is a space if the request has a `delimiter`, and a plus otherwise: the Lance REST client always
 *   sends one and encodes paths as forms, the LanceDB client sends neither. An escaped `%2B` is always a plus.
 * - With the delimiter `.`, the root namespace is the segment `.`, which URL libraries remove before they send; it is
 *   put back for the two listings that are asked of the root. Where a namespace is called `table`, the listing of its
 *   children reads the same as the listing of the root's tables: the latter is meant.
 */
export function routedTarget(url: string): string {
  const { path, queryString } = splitTarget(url);
  const plain = path.replaceAll(/\/{2,}/g, '/');
  const spaced = hasDelimiter(queryString) ? plain.replaceAll('+', '%20') : plain;
  const rooted = isDot(queryString)
    ? spaced.replace(/\/v1\/namespace\/(table\/)?list\/?$/, '/v1/namespace/%2E/$1list')
    : spaced;
  return queryString === '' ? rooted : `${rooted}?${queryString}`;
}

const hasDelimiter = (queryString: string): boolean => /(^|&)delimiter(=|&|$)/.test(queryString);
/** Compared undecoded: routing must not fail on a broken escape, whose refusal comes after authentication. */
const isDot = (queryString: string): boolean => /(^|&)delimiter=(\.|%2E)(&|$)/i.test(queryString);
