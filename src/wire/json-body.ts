/**
 * JSON bodies are read leniently as the clients need it: no body, `null` and `{}` are the same, and a field that is null is
 * absent; strict about the type of every field that is known.
 */
import Type, { type Static, type TObject } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { Check, Errors } from 'typebox/value';
import { invalidInput, type LancegateError } from '../kernel/errors.ts';
import { requireBoundedJson } from '../kernel/json-bounds.ts';
import { checkNames, type NameCheck } from './known-names.ts';

/** It is no `Type.Record`, whose pattern does not match a key that holds a line break. */
export const StringMap = Type.Unsafe<Readonly<Record<string, string>>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  examples: [{}],
});

/** Makes what `StringMap` is, of values of another kind. */
export const mapOf = <Schema extends Type.TSchema>(additionalProperties: Schema) =>
  Type.Unsafe<Readonly<Record<string, Static<Schema>>>>({ type: 'object', additionalProperties });

/** Versions count commits, so each fits a JavaScript number. */
export const Version = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, examples: [3] });

/** Answers count rows, bytes and the like by it. */
export const Count = Type.Integer({ minimum: 0 });

/** Bodies have these whose query may say the same. */
export const pageFields = {
  page_token: Type.Optional(
    Type.String({ description: 'Where the page begins: what the answer of the one before said.' }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, description: 'The most that one page has.' })),
};

/** Answers that have pages have it. */
export const nextPage = { page_token: Type.Optional(Type.String()) };

export const PageBody = Type.Object(pageFields);

/** Every body may hold the identifier again, as its parts, and a branch. */
export const Common = Type.Object({
  // A path has fewer.
  id: Type.Optional(Type.Array(Type.String(), { maxItems: 64 })),
  branch: Type.Optional(Type.String()),
});

type NoContext = Record<never, never>;

/**
 * Reads bodies of one shape. Their check is compiled with the first one: that takes milliseconds, and each check afterwards a
 * hundredth of what reading the schema anew takes.
 */
export class BodyReader<Schema extends TObject> {
  readonly #schema: Schema;
  /** It has all that a body may hold. */
  readonly #whole: TObject;
  #compiled:
    | { readonly common: Validator<NoContext, typeof Common>; readonly own: Validator<NoContext, Schema> }
    | undefined;

  constructor(schema: Schema) {
    this.#schema = schema;
    this.#whole = Type.Object({ ...schema.properties, ...Common.properties });
  }

  /** `InvalidInput` names the field at fault. `id` is the identifier that the path holds, as its parts. */
  parse(text: string, id: readonly string[], check: NameCheck): Static<Schema> & Static<typeof Common> {
    const fields = withoutNulls(parseObject(text));
    checkNames(this.#whole, fields, '', check);
    this.#compiled ??= { common: Compile(Common), own: Compile(this.#schema) };
    const { common, own } = this.#compiled;
    if (!common.Check(fields)) throw faultOfShape(Common, fields);
    requireSameId(fields.id, id);
    if (!own.Check(fields)) throw faultOfShape(this.#schema, fields);
    return fields;
  }
}

/** Returns the fields of an object inside a body; `InvalidInput` as for the body. */
export function readFields<Schema extends TObject>(schema: Schema, value: unknown, what: string): Static<Schema> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidInput(`${what} must be a JSON object`);
  }
  const fields = withoutNulls(value);
  if (Check(schema, fields)) return fields;
  throw faultOfShape(schema, fields);
}

function parseObject(text: string): object {
  const value = text.trim() === '' ? null : parseJson(text, 'the body');
  if (value === null) return {};
  if (typeof value === 'object' && !Array.isArray(value)) return value;
  throw invalidInput('the body must be a JSON object');
}

/** `InvalidInput` says that `what` is not JSON, or is made of too much (`json-bounds.ts`). */
export function parseJson(text: string, what: string): unknown {
  requireBoundedJson(text, what);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalidInput(`${what} is not JSON`, error);
  }
}

const withoutNulls = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));

/** May throw the fault of an array's elements instead. */
function faultOfShape(schema: TObject, fields: object): LancegateError {
  for (const [name, value] of Object.entries(fields)) {
    if (Array.isArray(value)) requireElements(schema.properties[name], name, value);
  }
  const [first] = Errors(schema, fields);
  return invalidInput(first === undefined ? 'the body is malformed' : describe(first));
}

/** Only an array with a fault is looked at further: to look for all faults of a long one would keep every client waiting. */
function requireElements(schema: Type.TSchema | undefined, name: string, value: readonly unknown[]): void {
  if (!Type.IsArray(schema)) return;
  const { items } = schema;
  const maxItems = 'maxItems' in schema ? Number(schema.maxItems) : Number.POSITIVE_INFINITY;
  if (value.length > maxItems) throw invalidInput(`${name} must not have more than ${maxItems} items`);
  const index = value.findIndex((element) => !Check(items, element));
  const [first] = index === -1 ? [] : Errors(items, value[index]);
  if (first !== undefined)
    throw invalidInput(describe({ ...first, instancePath: `/${name}/${index}${first.instancePath}` }));
}

function describe({ instancePath, message, params }: ReturnType<typeof Errors>[number]): string {
  const missing = 'requiredProperties' in params ? params.requiredProperties.join(', ') : undefined;
  if (missing !== undefined) return `the body lacks ${missing}`;
  return `${instancePath.slice(1).replaceAll('/', '.')} ${message}`;
}

/**
 * The table comes from the path only; a body with another identifier belongs to another request. Java's client always sends
 * the field, as an empty array if it is not set; that is no identifier.
 */
function requireSameId(given: readonly string[] | undefined, id: readonly string[]): void {
  if (given === undefined || given.length === 0) return;
  const isSame = given.length === id.length && given.every((part, index) => part === id[index]);
  if (!isSame) throw invalidInput('id: the body names another object than the path');
}
