/** What really lies on the storage, seen without the service. */
import { existsSync, readdirSync } from 'node:fs';
import { connect } from '@lancedb/lancedb';
import { NativeTableUnderTest } from '#test/fixtures/native-lance.ts';

/** Everything below a folder, folders too, as paths relative to it. It is read anew where a folder goes while it is read. */
export function entriesUnder(folder: string): string[] {
  while (existsSync(folder)) {
    try {
      return readdirSync(folder, { recursive: true }).map(String).sort();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return [];
}

/** A table of the root namespace whose name is plain, opened by LanceDB itself. */
export async function openStored(tablesFolder: string, name: string): Promise<NativeTableUnderTest> {
  const table = await (await connect(tablesFolder)).openTable(name);
  const { inner } = table as unknown as { inner: ConstructorParameters<typeof NativeTableUnderTest>[0] };
  return new NativeTableUnderTest(inner);
}
