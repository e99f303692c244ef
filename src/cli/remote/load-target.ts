/** The table that files are loaded into, which may not be there yet. */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import { readSchemaOfIpcFile } from '../../arrow/schema/read-schema.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { streamOf } from '../../load/row-messages.ts';
import { arrowFileType, arrowStreamType } from '../../rows/answer-form.ts';
import { type ServiceClient, ServiceRefusal } from './service-client.ts';
import { tableRoute } from './table-commands.ts';

/** Of what is asked, safe to ask again. */
type Ask = <Answer>(attempt: (service: ServiceClient) => Promise<Answer>) => Promise<Answer>;

interface TablePlace {
  readonly location: string;
  readonly is_only_declared?: boolean;
}

export class LoadTarget {
  readonly #table: string;
  readonly #ask: Ask;

  constructor(table: string, ask: Ask) {
    this.#table = table;
    this.#ask = ask;
  }

  /** undefined where there is no table. */
  async described(): Promise<TablePlace | undefined> {
    const route = tableRoute(this.#table, 'describe');
    try {
      return await this.#ask((service) => service.json<TablePlace>(route, { body: {} }));
    } catch (error) {
      if (error instanceof ServiceRefusal && error.status === 404) return undefined;
      throw error;
    }
  }

  async columns(): Promise<Schema> {
    const asked = { body: { filter: '1 = 0', k: 1 }, accept: arrowFileType };
    const route = tableRoute(this.#table, 'query');
    const bytes = await this.#ask(async (service) => (await service.ask(route, asked)).arrayBuffer());
    return readSchemaOfIpcFile(Buffer.from(bytes) as IpcFile);
  }

  /** Its name and its location, which does not change when the first rows bring the columns. Answers the location. */
  async declare(): Promise<string> {
    const route = tableRoute(this.#table, 'declare');
    try {
      return (await this.#ask((service) => service.json<TablePlace>(route, { body: {} }))).location;
    } catch (error) {
      // Another one was faster, or this one before its answer was lost.
      const there = error instanceof ServiceRefusal && error.status === 409 ? await this.described() : undefined;
      if (there === undefined) throw error;
      return there.location;
    }
  }

  /** With the columns of this message. */
  async makeEmpty(schema: Uint8Array): Promise<void> {
    const content = { type: arrowStreamType, bytes: streamOf([schema]) as Buffer<ArrayBuffer> };
    await this.#ask((service) => service.ask(tableRoute(this.#table, 'create?mode=exist_ok'), { content }));
  }
}
