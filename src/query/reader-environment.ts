/** What any process needs, and the engine's own settings. */
const always =
  /^(?:PATH|HOME|LANG|LC_ALL|TZ|TMPDIR|SSL_CERT_FILE|SSL_CERT_DIR|LANCE_\w+|RUST_LOG|TOKIO_WORKER_THREADS)$/;
/** The engine reads credentials of object stores from these. */
const forObjectStores = /^(?:AWS_|GOOGLE_|AZURE_|OSS_)\w+$|^(?:https?|no|all)_proxy$/i;
/** As for the service itself (docs/adr/0010), also if its operator chose otherwise. */
const fewArenas = { MALLOC_ARENA_MAX: '2' };

/** The part of the service's environment that a reader gets: no secret that it does not need (P9). */
export function readerEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  storageRoot: string,
): Readonly<Record<string, string>> {
  const isObjectStore = storageRoot.includes('://');
  const given = Object.entries(environment).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (always.test(entry[0]) || (isObjectStore && forObjectStores.test(entry[0]))),
  );
  return { ...Object.fromEntries(given), ...fewArenas };
}
