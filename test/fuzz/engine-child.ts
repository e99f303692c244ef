/** Hands files to the engine in a process of its own, which may die of them. */
import { openNativeLance } from '#test/fixtures/native-lance.ts';
import type { Verdict } from '#test/fuzz/engine-judge.ts';

const lance = await openNativeLance();
async function store(file: Uint8Array): Promise<Verdict> {
  try {
    const table = await lance.create(Buffer.from(file));
    await table.files();
    return { stored: await table.countRows() };
  } catch (error) {
    return { refused: String(error) };
  }
}

process.on('exit', () => lance.remove());
process.on('disconnect', () => process.exit(0));
process.on('message', (file: Uint8Array) => {
  void store(file).then((verdict) => process.send?.(verdict));
});
process.send?.('ready');
