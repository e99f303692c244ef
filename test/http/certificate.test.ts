/** The whole service with `--tls-certificate`; test/http-unit/tls.test.ts has what its parts do. */
import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { type Certified, newCa, statusOf, withoutOpenssl } from '#test/fixtures/certificates.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';
import { eventually } from './eventually.ts';

const lookEveryMs = 60_000;

describe('the certificate of a running service', { skip: withoutOpenssl ?? false }, () => {
  async function start(t: TestContext) {
    const after = (clean: () => void | Promise<void>) => t.after(clean);
    const [first, second] = [newCa(after), newCa(after)];
    const [shown, next] = [first.certify('shown'), second.certify('next')];
    const clock = new AdvancingClock();
    const settings = { TLS_CERTIFICATE: shown.certificatePath, TLS_KEY: shown.keyPath };
    const service = await startTestService(after, settings, clock);
    assert.equal(await statusOf(service.url, first.path), 200);
    const isReplaced = () =>
      statusOf(service.url, second.path).then(
        () => true,
        () => false,
      );
    return { service, clock, replace: () => replace(shown, next), isReplaced };
  }

  function replace(shown: Certified, next: Certified): void {
    copyFileSync(next.keyPath, shown.keyPath);
    copyFileSync(next.certificatePath, shown.certificatePath);
  }

  test('is another one from a reload on', async (t) => {
    const { service, replace, isReplaced } = await start(t);
    replace();
    assert.equal(await isReplaced(), false);
    await service.reload();
    assert.equal(await isReplaced(), true);
  });

  test('is looked at each minute', async (t) => {
    const { clock, replace, isReplaced } = await start(t);
    clock.advance(lookEveryMs);
    replace();
    await eventually('the other certificate is shown', async () => {
      clock.advance(lookEveryMs);
      return isReplaced();
    });
  });
});
