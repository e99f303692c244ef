/** The parameters that bound a write, and the headers by which SDKs, which cannot add parameters, send ours. */
import type { IncomingHttpHeaders } from 'node:http';
import Type from 'typebox';
import { invalidInput } from '../kernel/errors.ts';
import { didYouMean } from '../kernel/nearest-word.ts';
import { type AskedBounds, readMaxDeleted } from '../kernel/write-bounds.ts';
import { ruleNames } from '../table/standing-rules.ts';
import { flag, parseFlag, type QueryOf, readFlag } from './query-parameters.ts';

export const boundParameters = {
  dry_run: flag('Nothing is written, and the answer counts what would be.'),
  max_deleted: Type.Optional(
    Type.String({
      description: 'Where more rows would be deleted, all is refused: a number of rows.',
      examples: ['100'],
    }),
  ),
};

const prefix = 'x-lancegate-';
export const headerOf = (parameter: string): string => `${prefix}${parameter.replaceAll('_', '-')}`;
const dryRunHeader = headerOf('dry_run');
const known = [...ruleNames, ...Object.keys(boundParameters)].map(headerOf);

/** A parameter goes before its header. undefined where the request says neither. */
export function readBounds(
  query: QueryOf<keyof typeof boundParameters>,
  headers: IncomingHttpHeaders,
): AskedBounds | undefined {
  const dryRun = readFlag(query, 'dry_run') ?? flagIn(headers);
  const maxDeleted = query.text('max_deleted') ?? textIn(headers, headerOf('max_deleted'));
  readMaxDeleted(maxDeleted, 'max_deleted');
  if (dryRun !== true && maxDeleted === undefined) return undefined;
  return { ...(dryRun === true && { dryRun }), ...(maxDeleted !== undefined && { maxDeleted }) };
}

/**
 * A route that changes something heeds each header that begins like ours, or refuses it: one that is misspelt, and a dry run of what
 * has none, would write what was not meant to be written. Rules of other routes are passed over, since an SDK sends its headers with every
 * request.
 */
export function requireKnownHeaders(headers: IncomingHttpHeaders, parameters: Readonly<Record<string, unknown>>): void {
  for (const name of Object.keys(headers)) {
    if (!name.startsWith(prefix) || known.includes(name)) continue;
    const shown = name.slice(0, 100);
    throw invalidInput(`${shown}: no such header is known${didYouMean(shown, known)}`);
  }
  if (!Object.hasOwn(parameters, 'dry_run') && flagIn(headers) === true)
    throw invalidInput(`${dryRunHeader}: this operation has no dry run; nothing was written`);
}

function flagIn(headers: IncomingHttpHeaders): boolean | undefined {
  const text = textIn(headers, dryRunHeader);
  return text === undefined ? undefined : parseFlag(text, dryRunHeader);
}

const textIn = (headers: IncomingHttpHeaders, name: string): string | undefined => {
  const value = headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
};
