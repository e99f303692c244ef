import type { Method, Route } from './route.ts';

export type RouteMethods = Pick<Route, 'methods' | 'path' | 'isNotOffered'>;

/**
 * The paths of a route, as the router finds them. Routes are letters, digits, slashes, `_` and `-`, but for a base path that
 * may have dots.
 */
export const pathPattern = (route: string): RegExp =>
  new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}/?$`);

/** By which methods a path is a route; none where it is no route at all, or one that is not offered by any method. */
export function methodFinder(routes: readonly RouteMethods[]): (path: string) => readonly Method[] {
  const offered = routes.filter(({ isNotOffered }) => !isNotOffered);
  const patterns = offered.map(({ methods, path }) => ({ methods, pattern: pathPattern(path) }));
  return (path) => [...new Set(patterns.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))];
}
