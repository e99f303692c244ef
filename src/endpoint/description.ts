/** What a route says of itself. The document of the service is made of these, and of nothing else that could go out of date. */
import Type, { type TObject, type TProperties, type TSchema } from 'typebox';
import { branchParameter, delimiterParameter } from '../wire/identifiers.ts';
import { Common } from '../wire/json-body.ts';
import type { NamesOfRoute } from '../wire/known-names.ts';
import { timeoutParameter } from '../wire/query-parameters.ts';

export interface RouteDescription {
  /** As the specification has it, if it has the operation. */
  readonly operationId: string;
  readonly summary: string;
  /** The parameters that the query string may have. */
  readonly parameters: TProperties;
  /** The key is the content type; a route without a body has none. */
  readonly bodies: Readonly<Record<string, TSchema>>;
  /** Undefined where nothing is sent. A schema with a `contentMediaType` is of that type, every other of JSON. */
  readonly answers: TSchema | undefined;
  /** A client may ask for answers of these types. */
  readonly otherAnswers?: readonly TSchema[] | undefined;
  /** It heeds `Idempotency-Key`. */
  readonly takesKey: boolean;
}

export const arrowStreamType = 'application/vnd.apache.arrow.stream';

/** Bytes of a type of their own. */
export const bytesOf = (contentMediaType: string) => Type.String({ contentMediaType, format: 'binary' });

export const ArrowStream = bytesOf(arrowStreamType);

interface JsonSaid {
  readonly action: string;
  readonly operationId?: string;
  readonly summary: string;
  readonly query?: TProperties;
  readonly body: TObject;
  readonly answers: TSchema | undefined;
  readonly otherAnswers?: readonly TSchema[] | undefined;
  readonly knowsBranches: boolean;
  readonly takesKey: boolean;
}

/** A body has the fields of `Common` too, but for `branch` where the route works on main only. */
export function jsonDescription(said: JsonSaid): RouteDescription {
  const { action, operationId = action, summary, query, body, answers, otherAnswers, knowsBranches, takesKey } = said;
  const { branch, id } = Common.properties;
  const common = { id, ...(knowsBranches && { branch }) };
  return {
    operationId,
    summary,
    parameters: { ...query, ...commonParameters(knowsBranches) },
    bodies: { 'application/json': Type.Object({ ...body.properties, ...common }) },
    answers,
    otherAnswers,
    takesKey,
  };
}

/** A route that heeds `Idempotency-Key` changes something. */
export function namesOfRoute({ path, description }: { path: string; description?: RouteDescription }): NamesOfRoute {
  const json = description?.bodies['application/json'];
  return {
    path,
    isStrict: description?.takesKey ?? false,
    parameters: { ...description?.parameters, ...commonParameters(true), ...timeoutParameter },
    fields: json !== undefined && Type.IsObject(json) ? json.properties : {},
  };
}

/** What the routes themselves read of every query. */
export const commonParameters = (knowsBranches: boolean): TProperties => ({
  ...delimiterParameter,
  ...(knowsBranches && branchParameter),
});
