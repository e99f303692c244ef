/** A policy file is checked strictly, as the operator wrote it, before the service starts. */
import * as cedar from '@cedar-policy/cedar-wasm/nodejs';
import { AccessSetupError } from '../challenge.ts';

export interface PolicySource {
  /** The name of the file in messages. */
  readonly name: string;
  readonly text: string;
}

/** Cedar warns the operator of sound policies so: `name:line:column: remark`. */
export type Remarks = readonly string[];

/** What `checkPolicies` has passed. A check takes many times as long as putting the policies in force: it is done once. */
export interface CheckedSource extends PolicySource {
  readonly remarks: Remarks;
}

/** Throws `AccessSetupError`, which names every mistake as `name:line:column: what`. */
export function checkPolicies(source: PolicySource, schema: string): CheckedSource {
  const answer = cedar.validate({
    validationSettings: { mode: 'strict' },
    schema,
    policies: { staticPolicies: source.text },
  });
  if (answer.type === 'failure') throw broken(source, answer.errors);
  if (answer.validationErrors.length > 0) throw broken(source, errorsOf(answer.validationErrors));
  // A file without policies would lock every client out, and is more likely a mistake.
  const parts = cedar.policySetTextToParts(source.text);
  if (parts.type === 'failure') throw broken(source, parts.errors);
  if (parts.policies.length === 0) throw new AccessSetupError(`${source.name}:1:1: the file holds no policy`);
  return { ...source, remarks: errorsOf(answer.validationWarnings).map((warning) => describe(source, warning)) };
}

const errorsOf = (found: readonly cedar.ValidationError[]): readonly cedar.DetailedError[] =>
  found.map(({ error }) => error);

const broken = (source: PolicySource, errors: readonly cedar.DetailedError[]): AccessSetupError =>
  new AccessSetupError(errors.map((error) => describe(source, error)).join('\n'));

function describe(source: PolicySource, error: cedar.DetailedError): string {
  const [position] = error.sourceLocations ?? [];
  // Cedar's own numbers of policies say less than the position.
  const what = [
    error.message.replace(/^(failed to parse policies from string: |for policy `policy\d+`, )/, ''),
    position?.label,
    error.help,
  ].filter((part) => typeof part === 'string');
  return `${source.name}:${positionOf(source.text, position?.start ?? 0)}: ${what.join('; ')}`;
}

/** Cedar counts UTF-8 bytes; editors count lines and characters, from 1. */
function positionOf(text: string, byteOffset: number): string {
  const before = Buffer.from(text).subarray(0, byteOffset).toString();
  const lines = before.split('\n');
  return `${lines.length}:${[...(lines.at(-1) ?? '')].length + 1}`;
}
