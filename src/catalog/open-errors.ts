/**
 * Errors of opening a catalog end the start of the process, and its operator reads them. So unlike a `LancegateError` they name
 * files and processes; they never reach a client.
 */

/** Another process owns the catalog. */
export class CatalogHeld extends Error {
  override readonly name = 'CatalogHeld';
}

/** The catalog was written by a newer lancegate; this one would misread it. */
export class CatalogTooNew extends Error {
  override readonly name = 'CatalogTooNew';
}

/** The catalog cannot be read, written or migrated; `cause` has the engine's own error. */
export class CatalogUnusable extends Error {
  override readonly name = 'CatalogUnusable';
}
