/** Prints `docs/errors.md`, made from the catalogue of errors; a test requires that the file is this. */
import { statusTitles } from '#src/http/error-renderer.ts';
import { type ErrorEntry, errorCatalogue } from '#src/kernel/errors.ts';

const opening = `# Errors

Every answer that is no success has this body, with \`Content-Type: application/json\`:

\`\`\`json
{
  "type": "/errors/not-found-error",
  "title": "Not found Error",
  "status": 404,
  "detail": "",
  "instance": "/v1/table/prod$users/merge_insert",
  "error": "table 'prod$users' does not exist",
  "code": 4
}
\`\`\`

\`error\` says in words what was wrong. \`code\` is the number of the Lance namespace specification, \`instance\` the path
that was asked for. \`type\` and \`title\` follow the status. \`x-request-id\` is in every answer, and in the log.`;

const statusSection = `## Statuses

| status | type | title |
|---|---|---|`;

const catalogueSection = `## The catalogue

*Written* says what the error leaves behind, *retry* whether the same request may succeed later.

| error | status | code | written | retry | meaning |
|---|---|---|---|---|---|`;

const closing = `## Remarks

- A 503 carries \`Retry-After\`, in seconds. It spreads the refused writes of one principal over
  one to five seconds.
- A 405 carries \`Allow\`, the methods of the path.
- A 401 or 403 carries \`WWW-Authenticate\` as RFC 6750 has it.
- \`TableAlreadyExists\` is 400 instead of 409 for the LanceDB SDKs (a path that ends in a slash, or their
  \`User-Agent\`): they recognise an existing table by nothing else.
- \`TableDamaged\` says what is missing or torn; the log has the path. The table accepts no request until the files are
  restored, which the next request notices, or until it is dropped or created with \`mode=overwrite\`.
- A body that stops arriving, or arrives below 1 KB/s on average, ends with \`TimedOut\`. A body that breaks off, or an
  encoding that does not decode, is \`InvalidInput\`.
- When a request is answered before its body has been read, the connection is closed after the answer. Not so with a 503
  if less than 64 KiB of the body are missing and its length is known: the service reads the rest and drops it.
- At its limit the service may refuse a write with 503 before it looks at anything else, the credential included.

## Retries

An error with *written: nothing* and *retry: later* may simply be tried again. After a broken connection, a timeout of the
client's own or *written: unknown* the client cannot know. Requests that change something, and carry an
\`Idempotency-Key\` header (1 to 255 visible ASCII characters, such as a UUID, a new one for each request) can be sent again
all the same: what was done is not done twice, and the first answer comes once more, with
\`idempotency-replayed: true\`. The key works for the same principal, table, parameters and body, for
[\`--idempotency-retention\`](configuration.md) (24 h); with anything else it is refused (400). A request that failed may be sent
again under its key. After a crash or a 500 the service may not know that a change of names, tags or branches was done:
[protocol.md](protocol.md#retries).

\`OutcomeUnknown\` is the answer to a retry if the service died between a write's commit and the record of it, and cannot tell which
commit was the write's: the commit was another program's proposal or the engine's, or other versions came meanwhile. Otherwise the
commit says what it did, and the retry gets the first answer. The write was not applied again. Read the table to see, or send it
under a new key if applying it twice does no harm, as with an upsert of whole rows.`;

const errorRow = ([name, entry]: [string, ErrorEntry]): string =>
  `| \`${name}\` | ${entry.status} | ${entry.code} | ${entry.written} | ${entry.retry} | ${entry.meaning} |`;

export function errorDocument(): string {
  const statuses = Object.entries(statusTitles).map(
    ([status, { type, title }]) => `| ${status} | \`${type}\` | ${title} |`,
  );
  const errors = Object.entries(errorCatalogue).map(errorRow);
  return [opening, '', statusSection, ...statuses, '', catalogueSection, ...errors, '', closing, ''].join('\n');
}

if (import.meta.main) process.stdout.write(errorDocument());
