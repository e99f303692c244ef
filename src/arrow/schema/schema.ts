/**
 * An Arrow schema as plain immutable data: what the IPC schema message says, nothing decoded from batches.
 * Read by `read-schema.ts`; compared here; shown to LanceDB clients by `http/routes/lance-schema-json.ts`.
 */
export type TimeUnit = 's' | 'ms' | 'us' | 'ns';

export type DataType =
  | { readonly kind: 'null' | 'bool' | 'binary' | 'utf8' | 'large_binary' | 'large_utf8' }
  | { readonly kind: 'int'; readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean }
  | { readonly kind: 'float'; readonly bitWidth: 16 | 32 | 64 }
  | {
      readonly kind: 'decimal';
      readonly bitWidth: 32 | 64 | 128 | 256;
      readonly precision: number;
      readonly scale: number;
    }
  | { readonly kind: 'date'; readonly unit: 'day' | 'ms' }
  | { readonly kind: 'time'; readonly unit: TimeUnit }
  | { readonly kind: 'timestamp'; readonly unit: TimeUnit; readonly timezone: string | undefined }
  | { readonly kind: 'duration'; readonly unit: TimeUnit }
  | { readonly kind: 'interval'; readonly unit: 'year_month' | 'day_time' | 'month_day_nano' }
  | { readonly kind: 'fixed_size_binary'; readonly byteWidth: number }
  | { readonly kind: 'list' | 'large_list' | 'struct' | 'map' }
  | { readonly kind: 'fixed_size_list'; readonly listSize: number };

export interface Dictionary {
  readonly id: bigint;
  readonly index: { readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean };
  readonly ordered: boolean;
}

export interface Field {
  readonly name: string;
  readonly nullable: boolean;
  readonly type: DataType;
  /** Present where the column travels as indices; `type` is then the type of the values. */
  readonly dictionary: Dictionary | undefined;
  readonly children: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}

export interface Schema {
  readonly fields: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}
