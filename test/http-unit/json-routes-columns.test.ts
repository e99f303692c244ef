/** What changes the columns of a table, and restores its versions. */
import { type Case, testJsonRoutes } from './json-cases.ts';

const users = { namespace: ['prod'], name: 'users' };

const cases: readonly Case[] = [
  {
    path: '/v1/table/prod$users/add_columns',
    body: { branch: 'dev', new_columns: [{ name: 'double', expression: 'id * 2', computed: null }] },
    operation: 'addColumns',
    command: {
      table: users,
      branch: 'dev',
      columns: [{ name: 'double', value: '(id * 2)' }],
      idempotency: undefined,
    },
    answer: { version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/alter_columns',
    body: { alterations: [{ path: 'a.`b c`', rename: 'd', nullable: null, data_type: { type: 'float64' } }] },
    operation: 'alterColumns',
    command: {
      table: users,
      branch: undefined,
      alterations: [
        { path: { segments: ['a', 'b c'] }, rename: 'd', isNullable: undefined, dataType: '{"type":"double"}' },
      ],
      idempotency: undefined,
    },
    answer: { version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/drop_columns',
    body: { columns: ['name', 'a.b'] },
    operation: 'dropColumns',
    command: {
      table: users,
      branch: undefined,
      columns: [{ segments: ['name'] }, { segments: ['a', 'b'] }],
      idempotency: undefined,
    },
    answer: { version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/update_field_metadata',
    body: { updates: [{ path: 'id', metadata: { unit: 'one', old: null }, replace: null }] },
    operation: 'updateFieldMetadata',
    command: {
      table: users,
      branch: undefined,
      updates: [{ path: { segments: ['id'] }, metadata: { unit: 'one', old: null }, isWhole: false }],
      idempotency: undefined,
    },
    answer: { fields: { id: { unit: 'one' } }, version: 9, transaction_id: 'tx-3' },
  },
  {
    path: '/v1/table/prod$users/schema_metadata/update?branch=dev',
    body: { branch: 'a key like others', owner: 'ann' },
    operation: 'updateSchemaMetadata',
    command: {
      table: users,
      branch: 'dev',
      metadata: { branch: 'a key like others', owner: 'ann' },
      idempotency: undefined,
    },
    answer: { branch: 'a key like others', owner: 'ann' },
  },
  {
    path: '/v1/table/prod$users/restore',
    body: { version: 3, branch: 'dev' },
    operation: 'restoreTable',
    command: { table: users, branch: 'dev', version: 3, idempotency: undefined },
    answer: { version: 9, transaction_id: 'tx-3' },
  },
];

testJsonRoutes(cases);
