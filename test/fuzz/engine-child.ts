/** Hands files to the engine in a process of its own, which may die of them. */
import { openNativeLance } from '#test/fixtures/native-lance.ts';

const lance = await openNativeLance();
process.on('exit', () => lance.remove());
process.on('disconnect', () => process.exit(0));
process.on('message', async (file: Uint8Array) => {
  try {
    const table = await lance.create(Buffer.from(file));
    const files = await table.files();
    process.send?.({ stored: await table.countRows(), read: files.length });
  } catch (error) {
    process.send?.({ refused: String(error) });
  }
});
process.send?.('ready');
