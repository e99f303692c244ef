import type { Static, TObject } from 'typebox';
import type { Action } from '../auth/policy/actions.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { AuditFacts } from '../telemetry/audit.ts';
import { parseBranch, readDelimiter } from '../wire/identifiers.ts';
import { parseJsonBody } from '../wire/json-body.ts';
import type { QueryParameters } from '../wire/query-parameters.ts';
import {
  type Allows,
  type Answer,
  authorize,
  jsonAnswer,
  type Method,
  queryBranch,
  type Route,
  type RouteInput,
  refuseBranch,
  type TargetKind,
  type Upload,
} from './route.ts';

export interface JsonCall<Target, Body> {
  readonly target: Target;
  readonly body: Body;
  /** From the body or the query; undefined is main. */
  readonly branch: BranchName | undefined;
  readonly query: QueryParameters;
  readonly delimiter: string;
  readonly hasTrailingSlash: boolean;
  readonly allows: Allows;
  /** As `allows`, for a right that the request itself needs: the audit record has the decision. */
  readonly needs: Allows;
  /** Adds facts to the audit record that only the operation knows. */
  readonly note: (facts: AuditFacts) => void;
  readonly scope: RequestScope;
}

export interface JsonRoute<Target, Body extends TObject> {
  readonly methods: readonly Method[];
  readonly path: string;
  readonly target: TargetKind<Target>;
  readonly action: Action;
  readonly body: Body;
  /** Actions that the body needs in addition to `action`, on main. */
  readonly furtherActions?: (body: Static<Body>) => readonly Action[];
  /** Every branch that the request touches; without it the route knows main only. */
  readonly branches?: (body: Static<Body>, branch: BranchName | undefined) => readonly (BranchName | undefined)[];
  /** Facts of the body for the audit record. */
  readonly audit?: (body: Static<Body>) => AuditFacts;
  answer(call: JsonCall<Target, Static<Body>>): Promise<unknown>;
  /** Without it the value is sent as JSON. */
  readonly render?: (value: unknown) => Answer;
}

/**
 * A route whose request and answer are JSON.
 *
 * The policy is asked before the body is read, but for routes that know branches: there the branch stands in the body,
 * and asking about main first would lock out who may work on a branch only. Those read the body (bounded) of anybody with a valid credential, and ask before anything is looked up; so whoever is refused has
 * learned nothing but whether the own JSON was well-formed.
 */
export function jsonRoute<Target, Body extends TObject>(route: JsonRoute<Target, Body>): Route {
  return {
    methods: route.methods,
    path: route.path,
    prepare(input) {
      const delimiter = readDelimiter(input.query);
      const target = route.target.parse(input.id, delimiter);
      const asked = queryBranch(input);
      if (route.branches === undefined) {
        refuseBranch(asked);
        authorizeTarget(route, input, target, route.action, [undefined]);
      }
      return {
        body: 'json',
        answer: async (upload) => {
          const call = await readCall(route, input, target, delimiter, upload);
          return (route.render ?? jsonAnswer)(await route.answer(call));
        },
      };
    },
  };
}

async function readCall<Target, Body extends TObject>(
  route: JsonRoute<Target, Body>,
  input: RouteInput,
  target: Target,
  delimiter: string,
  upload: Upload,
): Promise<JsonCall<Target, Static<Body>>> {
  const text = input.method === 'GET' ? '' : await upload.text();
  const body = parseJsonBody(text, route.body, route.target.parts(target));
  if (route.audit !== undefined) input.trail.note(route.audit(body));
  const branch = oneBranch(queryBranch(input), parseBranch(body.branch));
  if (route.branches === undefined) refuseBranch(branch);
  else authorizeTarget(route, input, target, route.action, route.branches(body, branch));
  for (const action of route.furtherActions?.(body) ?? []) {
    authorizeTarget(route, input, target, action, [undefined]);
  }
  const { query, hasTrailingSlash, scope } = input;
  const allows: Allows = (action, resource, onBranch) => input.allows({ action, resource, branch: onBranch });
  const needs: Allows = (action, resource, onBranch) => {
    const isAllowed = allows(action, resource, onBranch);
    input.trail.asked({ action, resource, branch: onBranch }, isAllowed);
    return isAllowed;
  };
  const note = (facts: AuditFacts): void => input.trail.note(facts);
  return { target, body, branch, query, delimiter, hasTrailingSlash, allows, needs, note, scope };
}

/** All of the branches must be allowed. */
function authorizeTarget<Target, Body extends TObject>(
  route: JsonRoute<Target, Body>,
  input: RouteInput,
  target: Target,
  action: Action,
  branches: readonly (BranchName | undefined)[],
): void {
  const resource = route.target.resource(target);
  if (resource === undefined) return;
  for (const branch of branches) authorize(input, action, resource, branch);
}

function oneBranch(inQuery: BranchName | undefined, inBody: BranchName | undefined): BranchName | undefined {
  if (inQuery === undefined || inBody === undefined || inQuery === inBody) return inQuery ?? inBody;
  throw invalidInput('branch: the query and the body name different ones');
}
