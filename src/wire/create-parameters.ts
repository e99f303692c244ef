import type { CreateTableCommand } from '../create/create-command.ts';
import { createModes, parseChoice } from './mode.ts';
import { readProperties } from './properties.ts';
import type { QueryParameters } from './query-parameters.ts';
import { checkStorageOptions } from './storage-options.ts';

export type CreateParameters = Pick<CreateTableCommand, 'mode' | 'properties' | 'storageOptions'>;

export const readCreateParameters = (query: QueryParameters): CreateParameters => ({
  mode: query.one('mode', (text) => parseChoice(text ?? '', 'mode', createModes)) ?? 'create',
  properties: readProperties(query, 'properties'),
  storageOptions: checkStorageOptions(readProperties(query, 'storage_options') ?? {}),
});
