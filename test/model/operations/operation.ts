/** What each operation is to the model: how it is asked for, what it must do, and how it is drawn. */
import type { ErrorName } from '#src/kernel/errors.ts';
import type { HeaderFields } from '#test/fixtures/service.ts';
import type { Random } from '../random.ts';
import { main } from '../reference.ts';
import type { World } from './world.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Refused with one of these errors, where a request has several faults; or answered so, and then such a world. */
export type Expected =
  | { readonly refused: readonly ErrorName[] }
  | {
      /** Fields that the answer has, with exactly these values. */
      readonly answer: Readonly<Record<string, unknown>>;
      /** Throws for an answer that `answer` does not describe. */
      readonly check?: (body: unknown) => void;
      /** It is the answer that an earlier request under the same key got. */
      readonly isReplay?: true;
      readonly world: (body: Answer['body']) => World;
    };

export const refused = (...names: readonly ErrorName[]): { readonly refused: readonly ErrorName[] } => ({
  refused: names,
});

export interface Request {
  readonly of: 'table' | 'namespace';
  /** Relative to the root of the world. */
  readonly id: string;
  /** The rest of the path, with the query. */
  readonly operation: string;
  readonly body?: Buffer | object;
  readonly headers?: HeaderFields;
}

export const tableRequest = (table: string, operation: string, body?: Buffer | object): Request => ({
  of: 'table',
  id: table,
  operation,
  ...(body && { body }),
});

/** Plain data, so that it can be printed, replayed and left out. */
interface AnyStep {
  readonly kind: string;
  readonly table?: string | undefined;
}

export interface Operation<Step extends AnyStep> {
  expect(world: World, step: Step): Expected;
  request(world: World, step: Step): Request;
  /** Undefined where the world has nothing that it could be done to. */
  draw(random: Random, world: World): Step | undefined;
}

/** A branch of a table, as most steps name it. Undefined is main. */
export interface Target {
  readonly table: string;
  readonly branch?: string | undefined;
}

export const branchOf = ({ branch }: Target): string => branch ?? main;

/** A retry under the same key gets the first answer. */
export interface Keyed {
  readonly key?: { readonly header: 'idempotency-key' | 'x-request-id'; readonly value: string } | undefined;
}
