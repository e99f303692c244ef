/** Loaded before the service: its wall clock is ahead or behind by `TEST_CLOCK_OFFSET_MS`. Native code keeps the true one. */
const offsetMs = Number(process.env.TEST_CLOCK_OFFSET_MS ?? 0);
const trueNow = Date.now.bind(Date);

if (offsetMs !== 0) {
  globalThis.Date = new Proxy(Date, {
    construct: (target, given: []) =>
      given.length === 0 ? new target(trueNow() + offsetMs) : Reflect.construct(target, given),
    get: (target, name) => (name === 'now' ? () => trueNow() + offsetMs : Reflect.get(target, name)),
  });
}
