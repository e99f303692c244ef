import { optional, required } from '../config/options.ts';
import { listOf, text } from '../config/value-types.ts';

/** Whom a credential stands for and what it allows. */
export const accessOptions = {
  subject: required(text, { flag: 'subject', doc: 'Whom it stands for.' }),
  scope: required(text, {
    flag: 'scope',
    doc: 'Scopes, separated by spaces, such as "lancegate:read lancegate:write".',
  }),
  groups: optional(listOf(text), { flag: 'group', doc: 'Groups that a policy can name.' }),
};

export const splitScopes = (scope: string): readonly string[] => scope.split(/\s+/).filter((word) => word !== '');
