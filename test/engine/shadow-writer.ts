/** Commits one shadow after the other in a table, until it is killed. Says each version it has committed. */
import { engineIn } from '#test/fixtures/engine-in.ts';
import { changeInShadow, location } from './shadow-rounds.ts';

const dataset = await engineIn(process.argv[2] ?? '').open({ location });
for (;;) {
  const version = await changeInShadow(dataset);
  await dataset.sync();
  process.stdout.write(`${version}\n`);
}
