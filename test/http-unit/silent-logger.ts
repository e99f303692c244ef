/** For parts whose log no test reads. */
export const silentLogger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
