/** The OpenAPI document of the service, made from the descriptions of its routes and the catalogue of errors. */
import Type, { type TProperties, type TSchema } from 'typebox';
import { type ErrorName, errorCatalogue } from '../../kernel/errors.ts';
import { idempotencyKeyHeader } from '../../wire/identifiers.ts';
import { timeoutHeader, timeoutParameter } from '../../wire/query-parameters.ts';
import { databaseHeader } from '../database.ts';
import { ErrorBody, statusTitles } from '../error-renderer.ts';
import type { Method, Route } from '../route.ts';
import type { RouteDescription } from './description.ts';

type Json = Readonly<Record<string, unknown>>;

/** `routes` are below the base path. Those without a description are not in the document. */
export function openApiDocument(routes: readonly Route[], basePath: string): Json {
  const paths = new Map<string, Json>();
  for (const { path, methods, description } of routes) {
    if (description !== undefined) paths.set(pathOf(path), pathItem(path, methods, description));
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'lancegate',
      version: '1',
      description:
        'Lance tables over HTTP, as the Lance Namespace specification and the LanceDB SDKs have them. A field of a body that is null counts as absent. A name that is not known is refused where the request changes something, and where it is near to a known one.',
      license: { name: 'Apache 2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0.html' },
    },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    security: [{ bearer: [] }, { apiKey: [] }],
    paths: Object.fromEntries([...paths].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A token, or an API key.' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      schemas: { Error: printed(ErrorBody) },
      responses: Object.fromEntries(refusals.map((status) => [`Refusal${status}`, refusalOf(status)])),
    },
  };
}

/** Our names of the parts of a path, as the specification has them. */
const partNames: Readonly<Record<string, string>> = { index: 'index_name' };
const partName = (part: string): string => partNames[part] ?? part;

const pathOf = (path: string): string => path.replaceAll(/:(\w+)/g, (_, part: string) => `{${partName(part)}}`);

function pathItem(path: string, methods: readonly Method[], description: RouteDescription): Json {
  const operations = methods.map((method) => [method.toLowerCase(), operation(path, method, description)]);
  // GET of a route that also has POST is for older clients.
  if (methods.length > 1) {
    const older = operations.find(([method]) => method === 'get');
    if (older !== undefined) {
      older[1] = { ...(older[1] as Json), operationId: `${description.operationId}ByGet`, deprecated: true };
    }
  }
  return Object.fromEntries(operations) as Json;
}

function operation(path: string, method: Method, description: RouteDescription): Json {
  const { operationId, summary, parameters, answers, takesKey } = description;
  return {
    operationId,
    summary,
    tags: [tagOf(path)],
    parameters: [
      ...pathParameters(path),
      ...queryParameters({ ...parameters, ...timeoutParameter }),
      ...headerParameters(takesKey),
    ],
    ...(method === 'POST' && requestBody(description)),
    responses: { 200: { description: 'Done.', ...(answers && { content: contentOf(answers) }) }, ...refusalsByStatus },
  };
}

const tags: readonly (readonly [RegExp, string])[] = [
  [/^\/v1\/namespace\//, 'Namespace'],
  [/^\/v1\/transaction\//, 'Transaction'],
  [/\/index\/|_index$/, 'Index'],
  [/\/tags\//, 'Tag'],
  [/\/branches\//, 'Branch'],
  [/\/jobs\//, 'Job'],
];
const tagOf = (path: string): string => tags.find(([pattern]) => pattern.test(path))?.[1] ?? 'Table';

const pathParameters = (path: string): Json[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, part = '']) => ({
    name: partName(part),
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
    ...(part === 'id' && { description: 'The parts of the identifier, with the delimiter between them.' }),
  }));

const queryParameters = (parameters: TProperties): Json[] =>
  Object.entries(parameters)
    .filter(([, schema]) => !Type.IsNever(schema))
    .map(([name, schema]) => ({
      name,
      in: 'query',
      required: !Type.IsOptional(schema),
      schema: printed(schema),
    }));

const headerParameters = (takesKey: boolean): Json[] => [
  { name: timeoutHeader, in: 'header', required: false, schema: { type: 'integer', minimum: 1, maximum: 999_999 } },
  {
    name: databaseHeader,
    in: 'header',
    required: false,
    description: 'A namespace of the root that the names of the request are below (`--databases`).',
    schema: { type: 'string' },
  },
  ...(takesKey
    ? [
        {
          name: idempotencyKeyHeader,
          in: 'header',
          required: false,
          description: 'What was done under this key is not done twice: a retry gets the first answer.',
          schema: { type: 'string', pattern: '^[!#-~]{1,255}$' },
        },
      ]
    : []),
];

function requestBody({ bodies }: RouteDescription): Json {
  const content = Object.fromEntries(
    Object.entries(bodies).map(([type, schema]) => [type, { schema: printed(schema) }]),
  );
  const isRequired = Object.values(bodies).every((schema) => !('properties' in schema) || hasRequired(schema));
  return { requestBody: { required: isRequired, content } };
}

const hasRequired = (schema: TSchema): boolean => 'required' in schema && (schema.required as unknown[]).length > 0;

function contentOf(answers: TSchema): Json {
  const type = 'contentMediaType' in answers ? String(answers.contentMediaType) : 'application/json';
  return { [type]: { schema: printed(answers) } };
}

/** Any route may refuse with each of these; a path that is in the document has its methods. */
const refusals = Object.keys(statusTitles).filter((status) => status !== '405');
const refusalsByStatus = Object.fromEntries(
  refusals.map((status) => [status, { $ref: `#/components/responses/Refusal${status}` }]),
);

function refusalOf(status: string): Json {
  const names = Object.entries(errorCatalogue).filter(([, entry]) => String(entry.status) === status) as [
    ErrorName,
    { readonly code: number; readonly meaning: string },
  ][];
  const lines = names.map(([name, { code, meaning }]) => `${name} (${code}): ${meaning}`);
  return {
    description: lines.join('\n\n'),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
}

/** TypeBox writes tuples as JSON Schema had them before OpenAPI 3.1. */
function printed(schema: unknown): Json {
  return print(schema) as Json;
}

function print(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(print);
  if (typeof value !== 'object' || value === null) return value;
  const { items, additionalItems, ...others } = value as Json;
  const rest = Object.fromEntries(Object.entries(others).map(([name, part]) => [name, print(part)]));
  if (Array.isArray(items)) return { ...rest, prefixItems: print(items), items: additionalItems ?? true };
  return items === undefined ? rest : { ...rest, items: print(items) };
}
