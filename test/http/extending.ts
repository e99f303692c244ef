/** Sources that extend their table, and what becomes of it. */
import assert from 'node:assert/strict';
import {
  type DataType,
  Field,
  RecordBatch,
  Schema,
  Table,
  tableToIPC,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import type { Row } from './rows.ts';

export type Clean = (end: () => void | Promise<void>) => void;

export async function startWith(clean: Clean, rows: Buffer, create = ''): Promise<TestService> {
  const service = await startTestService(clean);
  const answer = await service.post(`/v1/table/t/create${create}`, rows);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return service;
}

const logged = (service: TestService) =>
  service.log
    .filter((line) => line.includes('internal') || line.includes('"error"'))
    .slice(-3)
    .join('\n');

export async function written(service: TestService, path: string, body: Buffer | object, headers = {}): Promise<Row> {
  const answer = await service.post(`/v1/table/t/${path}`, body, headers);
  assert.equal(answer.status, 200, JSON.stringify(answer.body) + logged(service));
  return answer.body;
}

export const merge = (service: TestService, rows: Buffer, query = '&schema=extend', headers = {}): Promise<Row> =>
  written(service, `merge_insert?on=id${query}`, rows, headers);

export async function refused(
  service: TestService,
  path: string,
  body: Buffer,
  message: RegExp,
  status = 400,
): Promise<void> {
  const { body: before } = await service.post('/v1/table/t/describe', {});
  const answer = await service.post(`/v1/table/t/${path}`, body);
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assert.match(JSON.stringify(answer.body), message);
  const { body: after } = await service.post('/v1/table/t/describe', {});
  assert.equal(after.version, before.version);
}

interface Described extends Row {
  readonly version: number;
  readonly schema: {
    readonly fields: readonly {
      readonly name: string;
      readonly nullable: boolean;
      readonly type: { readonly type: string };
    }[];
  };
}

export async function columns(service: TestService, branch?: string): Promise<readonly string[]> {
  const { body } = await service.post<Described>('/v1/table/t/describe', branch === undefined ? {} : { branch });
  return body.schema.fields.map(({ name, type, nullable }) => `${name}: ${type.type}${nullable ? '' : ' not null'}`);
}

/** A column of type Null is nullable, which the library does not say by itself. */
export function streamOf(columns: Readonly<Record<string, Vector>>): Buffer {
  const schema = new Schema(Object.entries(columns).map(([name, { type }]) => new Field(name, type, true)));
  const batches = new Table(columns).batches.map(({ data }) => new RecordBatch(schema, data));
  return Buffer.from(tableToIPC(new Table(schema, batches), 'stream'));
}

export const typed = (type: DataType, values: readonly unknown[]): Vector => vectorFromArray(values, type) as Vector;
