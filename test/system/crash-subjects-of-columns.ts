/** Columns and what is noted of them. */
import { Field, Schema, Table, tableToIPC, Utf8 } from 'apache-arrow';
import { makeTable, without } from './crash-rows.ts';
import type { Step, Subject } from './crash-sequence.ts';
import type { CrashService, Json } from './crash-service.ts';

const firstRows = 100;
const own = ['id', 'n', 'request'];
const seenRows = 3;
const mostColumns = 5;

interface DescribedField {
  readonly name: string;
  readonly type: { readonly type: string };
  readonly metadata?: Readonly<Record<string, string>>;
}

interface DescribedSchema {
  readonly fields: readonly DescribedField[];
  readonly metadata?: Readonly<Record<string, string>>;
}

async function schemaOf(service: CrashService, table: string): Promise<DescribedSchema> {
  return (await service.get({ path: `/v1/table/${table}/describe` })).schema as DescribedSchema;
}

/** Of each column that was added, its type and what it has in some rows. */
type Columns = Readonly<Record<string, string>>;

const shown = (type: string, values: readonly unknown[]): string => `${type} ${values.map(String).join()}`;

function added(table: string, n: number, state: Columns): Step<Columns> {
  const name = `c${n}`;
  const path = `/v1/table/${table}/add_columns`;
  const repetition = n % 2 === 0 ? 'Idempotency-Key' : 'x-request-id';
  if (n % 3 === 0) {
    const body = tableToIPC(new Table(new Schema([new Field(name, new Utf8(), true)])), 'stream');
    const after = {
      ...state,
      [name]: shown(
        'string',
        Array.from({ length: seenRows }, () => null),
      ),
    };
    return { name: 'add_columns of a schema', asked: { path, body }, after, repetition };
  }
  const body = { new_columns: [{ name, expression: `CAST(id + ${n} AS INT)` }] };
  const after = { ...state, [name]: shown('int32', [n, n + 1, n + 2]) };
  return { name: 'add_columns', asked: { path, body }, after, repetition };
}

export const columns: Subject<Columns> = {
  name: 'columns',
  takesUpserts: true,
  async start(service, table) {
    await makeTable(service, table, firstRows);
    return {};
  },
  next(table, { n, state, random }) {
    const names = Object.keys(state);
    if (names.length === 0 || (n % 4 === 0 && names.length < mostColumns)) return added(table, n, state);
    const name = random.pick(names);
    const repetition = n % 2 === 0 ? 'Idempotency-Key' : 'x-request-id';
    const alter = (alteration: Json) => ({
      path: `/v1/table/${table}/alter_columns`,
      body: { alterations: [{ path: name, ...alteration }] },
    });
    if (n % 4 === 1) {
      const to = `d${n}`;
      const after = { ...without(state, name), [to]: state[name]! };
      return { name: 'alter_columns, a name', asked: alter({ rename: to }), after, repetition };
    }
    const cast = names.find((each) => state[each]!.startsWith('int32 '));
    if (n % 4 === 2 && cast !== undefined) {
      const asked = alter({ path: cast, data_type: { type: 'int64' } });
      const after = { ...state, [cast]: state[cast]!.replace('int32', 'int64') };
      return { name: 'alter_columns, a type', asked, after, repetition };
    }
    const asked = { path: `/v1/table/${table}/drop_columns`, body: { columns: [name] } };
    return { name: 'drop_columns', asked, after: without(state, name), repetition };
  },
  async observe(service, table) {
    const fields = (await schemaOf(service, table)).fields.filter(({ name }) => !own.includes(name));
    const order = [{ column_name: 'id', ascending: true, nulls_first: false }];
    const filter = `id < ${seenRows}`;
    const rows = await service.query(table, {
      filter,
      columns: ['id', ...fields.map(({ name }) => name)],
      order_by: order,
    });
    const values = (name: string) => [...rows].map((row) => row[name] as unknown);
    return Object.fromEntries(fields.map(({ name, type }) => [name, shown(type.type, values(name))]));
  },
};

interface Notes {
  readonly ofColumn: string;
  readonly ofSchema: string;
}

export const metadata: Subject<Notes> = {
  name: 'metadata',
  takesUpserts: true,
  async start(service, table) {
    await makeTable(service, table, firstRows);
    return { ofColumn: '', ofSchema: '' };
  },
  next(table, { n, state }) {
    const note = `v${n}`;
    const repetition = n % 4 < 2 ? 'Idempotency-Key' : 'x-request-id';
    if (n % 2 === 0) {
      const body = { updates: [{ path: 'n', metadata: { note } }] };
      const asked = { path: `/v1/table/${table}/update_field_metadata`, body };
      return { name: 'update_field_metadata', asked, after: { ...state, ofColumn: note }, repetition };
    }
    const asked = { path: `/v1/table/${table}/schema_metadata/update`, body: { note } };
    return { name: 'schema_metadata/update', asked, after: { ...state, ofSchema: note }, repetition };
  },
  async observe(service, table) {
    const { fields, metadata: ofSchema } = await schemaOf(service, table);
    const ofColumn = fields.find(({ name }) => name === 'n')?.metadata;
    return { ofColumn: ofColumn?.note ?? '', ofSchema: ofSchema?.note ?? '' };
  },
};
