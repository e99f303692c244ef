/** The loads of `bench/against.ts`. Each makes its own tables. */
import { makeData, Struct, Table, Vector } from 'apache-arrow';
import { accepted, type Served } from './closed-loop.ts';
import { KeyFeed } from './key-feed.ts';
import { RawClient } from './raw-client.ts';
import type { ServiceProcess } from './service-process.ts';
import { floatsPerRow, httpUpserters, requestHead } from './upserters.ts';
import { bodyOf, range, repeatedStream, vectorTable } from './workloads.ts';

export interface AgainstLoad {
  readonly what: string;
  readonly clients: number;
  /** Of a turn; undefined for as many as there is time for. */
  readonly maxRequests?: number;
  prepare(service: ServiceProcess): Promise<Requests>;
}

export interface Requests {
  send(client: number): Promise<Served>;
  /** At the end of a turn: the service may not keep idle connections until the next. */
  close(): void;
}

const targetRows = 200_000;
const bodies = 64;
const bodyRows = 100;

const upserts = (clients: number, rowsPerRequest: number, rule = ''): AgainstLoad => ({
  what: `${clients} x ${rowsPerRequest}-row upserts${rule}`,
  clients,
  prepare: async (service) => {
    const table = `upserts_${clients}${rule.replace(/\W/g, '_')}`;
    await service.post(`/v1/table/${table}/create`, bodyOf(vectorTable(targetOf())).stream);
    const upserters = httpUpserters(service, table, { clients, rowsPerRequest, rule });
    const feed = new KeyFeed(targetRows, rowsPerRequest);
    return { send: (client) => upserters.upsert(client, feed.next()), close: upserters.close };
  },
});

/** One client, the same bodies again and again: half of their keys were in the table at first. */
const merges = (what: string, name: string, query: string, shape: (table: Table) => Table): AgainstLoad => ({
  what,
  clients: 1,
  prepare: async (service) => {
    await service.post(`/v1/table/${name}/create`, bodyOf(shape(vectorTable(targetOf()))).stream);
    const requests = range(0, bodies).map((body) => {
      const keys = range(0, bodyRows).map((row) => (body * bodyRows + row) * 2 + (row % 2) * targetRows);
      const { stream } = bodyOf(shape(vectorTable({ keys, floatsPerRow }, body)));
      return Buffer.concat([Buffer.from(requestHead(service, `${name}/merge_insert?${query}`, stream.length)), stream]);
    });
    const client = new RawClient(service.port);
    let next = 0;
    const send = async (): Promise<Served> => {
      const { status, body } = await client.send(requests[next++ % bodies]!);
      if (status !== 200) throw new Error(`${status}: ${body.toString()}`);
      return accepted;
    };
    return { send, close: () => client.close() };
  },
});

const createdFloats = 128;
const createdBatchRows = 20_000;

const creates = (megabytes: number): AgainstLoad => ({
  what: `create of ${megabytes} MB`,
  clients: 1,
  maxRequests: 1,
  prepare: async (service) => {
    const batch = vectorTable({ keys: range(0, createdBatchRows), floatsPerRow: createdFloats });
    const batches = Math.round((megabytes * 1e6) / (createdBatchRows * (8 + 4 * createdFloats)));
    const send = async (): Promise<Served> => {
      await service.post('/v1/table/created/create?mode=overwrite', repeatedStream(batch, batches));
      return accepted;
    };
    return { send, close: () => {} };
  },
});

const targetOf = () => ({ keys: range(0, targetRows), floatsPerRow });

/** With the key as `who.id`. */
function nested(table: Table): Table {
  const id = table.getChild('id')!;
  const who = makeData({
    type: new Struct([table.schema.fields[0]!]),
    length: id.length,
    nullCount: 0,
    children: [id.data[0]!],
  });
  return new Table({ who: new Vector([who]), vector: table.getChild('vector')! });
}

const filtered = 'on=id&when_matched_update_all=true&when_matched_update_all_filt=source.id%20%3E%200';

export const loads: Readonly<Record<string, AgainstLoad>> = {
  many: upserts(64, 100),
  last: upserts(64, 100, '&on_duplicate=last'),
  versions: upserts(64, 100, '&version_column=id'),
  one: upserts(1, 1),
  nested: merges('1 x 100 rows by a nested key', 'nested', 'on=who.id', nested),
  filter: merges('1 x 100-row updates under a filter', 'filtered', filtered, (table) => table),
  create: creates(200),
};
