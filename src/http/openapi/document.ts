/** Makes the OpenAPI document of the service from the descriptions of its routes and the catalogue of errors. */
import Type, { type TProperties, type TSchema } from 'typebox';
import { databaseHeader } from '../../endpoint/database.ts';
import type { RouteDescription } from '../../endpoint/description.ts';
import type { Method, Route } from '../../endpoint/route.ts';
import { type ErrorEntry, errorCatalogue } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { textTypes } from '../../rows/answer-form.ts';
import { idempotencyKeyHeader } from '../../wire/identifiers.ts';
import { timeoutHeader, timeoutParameter } from '../../wire/query-parameters.ts';
import { ErrorBody, statusTitles } from '../error-renderer.ts';
import { groups, guides } from './guide.ts';

type Json = Readonly<Record<string, unknown>>;

/** `routes` are below the base path. Those without a description are not in the document. */
export function openApiDocument(routes: readonly Route[], basePath: string, version: string): Json {
  const schemas = new NamedSchemas();
  schemas.named('Error', ErrorBody);
  const described = routes.flatMap(({ path, methods, description }) =>
    description === undefined ? [] : [[pathOf(path), pathItem(path, methods, description, schemas)] as const],
  );
  return {
    openapi: '3.1.1',
    info: {
      title: 'lancegate',
      version,
      description:
        'Lance tables over HTTP, as the Lance Namespace specification and the LanceDB SDKs have them. A field of a body that is null counts as absent. A name that is not known is refused where the request changes something, and where it is near to a known one.',
      contact: { name: 'lancegate' },
      license: { name: 'Apache 2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0.html' },
    },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags: groups,
    paths: Object.fromEntries(described.toSorted((a, b) => rankOf(a) - rankOf(b))),
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A token, or an API key.' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      schemas: schemas.all(),
      responses: Object.fromEntries(
        refusals.map(([status, titles]) => [`Refusal${status}`, refusalOf(Number(status), titles)]),
      ),
    },
  };
}

/** Our names of the parts of a path, as the specification has them. */
const partNames: Readonly<Record<string, string>> = { index: 'index_name' };
const partName = (part: string): string => partNames[part] ?? part;

const pathOf = (path: string): string => path.replaceAll(/:(\w+)/g, (_, part: string) => `{${partName(part)}}`);

/** A reader finds the operations in the order of the guide. */
const ranks = new Map(Object.keys(guides).map((operationId, rank) => [operationId, rank]));
const rankOf = ([, item]: readonly [string, Json]): number =>
  Math.min(
    ...Object.values(item).map(
      (described) => (isObject(described) ? ranks.get(String(described.operationId)) : undefined) ?? ranks.size,
    ),
  );

function pathItem(path: string, methods: readonly Method[], said: RouteDescription, schemas: NamedSchemas): Json {
  // GET of a route that also has POST is for older clients.
  const isOlder = (method: Method): boolean => method === 'GET' && methods.length > 1;
  return Object.fromEntries(
    methods.map((method) => {
      const description = isOlder(method) ? { ...said, operationId: `${said.operationId}ByGet` } : said;
      const described = operation(path, method, description, schemas);
      return [method.toLowerCase(), isOlder(method) ? { ...described, deprecated: true } : described];
    }),
  );
}

function operation(path: string, method: Method, description: RouteDescription, schemas: NamedSchemas): Json {
  const { operationId, summary, parameters, answers, otherAnswers = [], takesKey } = description;
  const guide = guides[operationId];
  const done = {
    description: 'Done.',
    ...(answers && { content: contentOf(operationId, [answers, ...otherAnswers], schemas) }),
  };
  return {
    operationId,
    summary,
    description: guide?.text ?? summary,
    tags: guide === undefined ? [] : [guide.group.name],
    parameters: [
      ...pathParameters(path),
      ...queryParameters({ ...parameters, ...timeoutParameter }),
      ...headerParameters(takesKey),
    ],
    ...(method === 'POST' && requestBody(description, schemas)),
    responses: { 200: done, ...refusalsByStatus },
  };
}

/** Gives the part of a path a value that the examples of the guide fit. */
function exampleOf(part: string, path: string): Json {
  if (part === 'index') return { example: 'name_idx' };
  if (path.startsWith('/v1/namespace/')) return { example: 'team' };
  return path.startsWith('/v1/table/') ? { example: 'people' } : {};
}

const pathParameters = (path: string): Json[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, part = '']) => ({
    name: partName(part),
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
    ...exampleOf(part, path),
    description:
      part === 'index' ? 'The name of the index.' : 'The parts of the identifier, with the delimiter between them.',
  }));

const queryParameters = (parameters: TProperties): Json[] =>
  Object.entries(parameters)
    .filter(([, schema]) => !Type.IsNever(schema))
    .map(([name, parameter]) => {
      const { description, examples, ...schema } = printed(parameter);
      const required = !Type.IsOptional(parameter);
      const [example]: readonly unknown[] = Array.isArray(examples) ? examples : [];
      // The page sends the examples that it shows, so only what has to be sent has one.
      return { name, in: 'query', required, description, schema, ...(required && { example }) };
    });

const headerParameters = (takesKey: boolean): Json[] => [
  {
    name: timeoutHeader,
    in: 'header',
    required: false,
    description: 'As `timeout`, in milliseconds; the smaller one counts.',
    schema: { type: 'integer', minimum: 1, maximum: 999_999 },
  },
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

function requestBody({ operationId, bodies }: RouteDescription, schemas: NamedSchemas): Json {
  const content = Object.entries(bodies).map(([type, schema]) => {
    const name = type === 'application/json' ? `${operationId}Request` : `${operationId}Form`;
    const example = exampleAs(type, guides[operationId]?.example);
    return [type, { schema: schemas.named(name, schema), ...(example !== undefined && { example }) }];
  });
  const isRequired = Object.values(bodies).every(
    (schema) =>
      !('properties' in schema) ||
      ('required' in schema && Array.isArray(schema.required) && schema.required.length > 0),
  );
  return { requestBody: { required: isRequired, content: Object.fromEntries(content) } };
}

/** Undefined where there is none in this format. Rows are in all that a person can read. */
function exampleAs(type: string, example: unknown): unknown {
  if (type === textTypes.json || !Array.isArray(example)) return type === textTypes.json ? example : undefined;
  const rows = example.filter(isObject);
  if (type === textTypes.ndjson) return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  if (type !== textTypes.csv) return undefined;
  const cell = (value: unknown): string => (Array.isArray(value) ? `"${JSON.stringify(value)}"` : String(value));
  return [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row).map(cell))].join('\n');
}

function contentOf(operationId: string, answers: readonly TSchema[], schemas: NamedSchemas): Json {
  const name = `${operationId.replace(/ByGet$/, '')}Response`;
  const content = answers.map((answer) => {
    const type = 'contentMediaType' in answer ? String(answer.contentMediaType) : textTypes.json;
    return [type, { schema: schemas.named(name, answer) }] as const;
  });
  // The page asks for the first, and shows it.
  return Object.fromEntries(
    content.toSorted(([a], [b]) => Number(b === textTypes.json) - Number(a === textTypes.json)),
  );
}

/** Objects have names, by which generated clients call their types; all else stands where it is used. */
class NamedSchemas {
  readonly #schemas = new Map<string, Json>();

  named(name: string, schema: TSchema): Json {
    if (!('type' in schema) || schema.type !== 'object') return printed(schema);
    this.#schemas.set(name, printed(schema));
    return { $ref: `#/components/schemas/${name}` };
  }

  all(): Json {
    return Object.fromEntries([...this.#schemas].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Any route may refuse with each of these; a path that is in the document has its methods. */
const refusals = Object.entries(statusTitles).filter(([status]) => status !== '405');
const refusalsByStatus = Object.fromEntries(
  refusals.map(([status]) => [status, { $ref: `#/components/responses/Refusal${status}` }]),
);

function refusalOf(status: number, titles: Json): Json {
  const entries = Object.entries<ErrorEntry>(errorCatalogue).filter(([, entry]) => entry.status === status);
  const lines = entries.map(([name, { code, meaning }]) => `${name} (${code}): ${meaning}`);
  const [example] = entries.map(([, { code, meaning }]) => ({
    ...titles,
    ...{ status, detail: '', instance: '/v1/table/people/query', error: meaning, code },
  }));
  return {
    description: lines.join('\n\n'),
    content: { [textTypes.json]: { schema: { $ref: '#/components/schemas/Error' }, example } },
  };
}

/** TypeBox writes tuples as JSON Schema had them before OpenAPI 3.1. What is read only to be refused is left out. */
function printed(schema: TSchema | Json): Json {
  const { items, additionalItems: _, ...others }: Json = { ...schema };
  const rest = Object.fromEntries(
    Object.entries(others).flatMap(([name, part]) =>
      isObject(part) && Type.IsNever(part) ? [] : [[name, print(part)]],
    ),
  );
  if (Array.isArray(items)) return { ...rest, prefixItems: print(items), items: {}, maxItems: items.length };
  return items === undefined ? rest : { ...rest, items: print(items) };
}

function print(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(print);
  return isObject(value) ? printed(value) : value;
}
