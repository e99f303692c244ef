/** `docs/errors.md`, from the catalogue; a test requires that the file is this. */
import { type ErrorEntry, errorCatalogue } from '../kernel/errors.ts';
import { statusTitles } from './error-renderer.ts';

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

- A 503 carries \`Retry-After\`, in seconds.
- A 401 or 403 carries \`WWW-Authenticate\` as RFC 6750 has it.
- \`TableAlreadyExists\` is 400 instead of 409 for the LanceDB SDKs (a path that ends in a slash, or their
  \`User-Agent\`): they recognise an existing table only so.
- A body that stops arriving, or arrives below 1 KB/s on average, ends with \`TimedOut\`. A body that breaks off, or an
  encoding that does not decode, is \`InvalidInput\`.
- When a request is answered before its body has been read, the connection is closed after the answer.`;

const errorRow = ([name, entry]: [string, ErrorEntry]): string =>
  `| \`${name}\` | ${entry.status} | ${entry.code} | ${entry.written} | ${entry.retry} | ${entry.meaning} |`;

export function errorDocument(): string {
  const statuses = Object.entries(statusTitles).map(
    ([status, { type, title }]) => `| ${status} | \`${type}\` | ${title} |`,
  );
  const errors = Object.entries(errorCatalogue).map(errorRow);
  return [opening, '', statusSection, ...statuses, '', catalogueSection, ...errors, '', closing, ''].join('\n');
}
