/** What a setting is; the table of them is settings.ts. */
import { defaultedOption, type Option, optionalOption } from './options.ts';
import type { ValueType } from './value-types.ts';

export const groups = {
  service: 'Service',
  storage: 'Storage',
  authentication: 'Authentication',
  limits: 'Limits',
  maintenance: 'Maintenance',
  times: 'Times',
  logs: 'Logs',
} as const;
export type Group = keyof typeof groups;

export interface Setting<T> extends Option<T> {
  readonly group: Group;
}

interface Words {
  readonly flag: string;
  readonly group: Group;
  readonly doc: string;
}

export const setting = <T>(type: ValueType<T>, words: Words & { default: string }): Setting<T> => ({
  ...words,
  ...defaultedOption(type, words),
});
export const optional = <T>(type: ValueType<T>, words: Words): Setting<T | undefined> => ({
  ...words,
  ...optionalOption(type, words),
});
