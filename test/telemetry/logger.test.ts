import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { createLogger, type Logger, type LogLevel } from '#src/telemetry/logger.ts';

function capture(format: 'json' | 'text', level: LogLevel = 'debug'): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  return { lines, logger: createLogger({ level, format, destination: { write: (line) => lines.push(line) } }) };
}

const key = 'lgk_ab986963a2cdb508_39fe5fec064e32b48d078aef5ecbc35d2ab4eecc94c6591500133d5c7d1bd73c';
const jwt = 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.Y_e4NdgNFRLbTzP72DUk1V6SnHrwdbxz';

for (const format of ['json', 'text'] as const) {
  test(`no secret gets into a ${format} line, wherever it stands (P9)`, () => {
    const { logger, lines } = capture(format);
    const headers = { authorization: 'Bearer tell-nobody', 'X-API-Key': 'tell-nobody', Cookie: 'tell-nobody' };
    logger.info({ headers, request: { nested: [{ headers }] } }, 'seen');
    logger.info({ clientSecret: 'tell-nobody', storage: { aws_secret_access_key: 'tell-nobody' } }, 'seen');
    logger.info({ accessToken: 'tell-nobody', password: { plain: 'tell-nobody' } }, 'seen');
    logger.child({ token: 'tell-nobody' }).warn({}, 'Bearer tell-nobody was refused');
    logger.error({ error: new Error(`no: Bearer tell-nobody ${key} ${jwt}`) }, `a key ${key}, a token ${jwt}`);
    const cause = Object.assign(new Error(key), { token: 'tell-nobody' });
    logger.error({ error: new LancegateError('Internal', jwt, { cause, internal: { secret: 'tell-nobody' } }) }, 'x');
    const written = lines.join('');
    assert.equal(lines.length, 6);
    assert.doesNotMatch(written, /tell-nobody|39fe5fec|eyJzdWIi|Y_e4NdgN/);
    assert.match(written, /\[redacted\]/);
  });
}

for (const format of ['json', 'text'] as const) {
  test(`no name makes a ${format} line of its own, or changes how one reads`, () => {
    const { logger, lines } = capture(format);
    const marks = '\u0085\u2028\u2029\u202e\u2066\u200b\u009b';
    logger.info({ table: `a${marks}b`, plain: '\u202eab' }, `table a${marks}b`);
    assert.equal(lines.join('').split(/[\n\u0085\u2028\u2029]/).length, 2);
    assert.doesNotMatch(lines.join(''), /[\u0080-\u009f\u2028\u2029\u202e\u2066\u200b]/);
    if (format === 'json') assert.equal(JSON.parse(lines.join('')).table, `a${marks}b`);
  });
}

test('facts that only sound like secrets stay readable', () => {
  const { logger, lines } = capture('json');
  logger.info({ keyId: 'k1', tokenCount: 3, transactionId: 't', tokenType: 'at+jwt' }, 'seen');
  const { keyId, tokenCount, transactionId, tokenType } = JSON.parse(lines[0]!);
  assert.deepEqual(
    { keyId, tokenCount, transactionId, tokenType },
    { keyId: 'k1', tokenCount: 3, transactionId: 't', tokenType: 'at+jwt' },
  );
});

test('a line below the level is not written', () => {
  const { logger, lines } = capture('json', 'warn');
  logger.info({}, 'no');
  logger.child({ a: 1 }).debug({}, 'no');
  logger.warn({}, 'yes');
  assert.equal(lines.length, 1);
});

test('a JSON line has its time, level, message and fields, those of its parents included', () => {
  const { logger, lines } = capture('json');
  logger.child({ requestId: 'r1' }).child({ table: 'a$t' }).info({ rows: 5n }, 'merged');
  const { time, ...line } = JSON.parse(lines[0]!);
  assert.match(time, /^\d{4}-\d\d-\d\dT.*Z$/);
  assert.deepEqual(line, { level: 'info', requestId: 'r1', table: 'a$t', rows: '5', message: 'merged' });
});

test('an error is logged with what it carries and with its causes', () => {
  const { logger, lines } = capture('json');
  const cause = Object.assign(new Error('disk full'), { code: 'ENOSPC' });
  logger.error({ error: new LancegateError('Internal', 'no', { cause, internal: { path: '/x' } }) }, 'failed');
  const { error } = JSON.parse(lines[0]!);
  assert.equal(error.type, 'LancegateError');
  assert.equal(error.kind, 'Internal');
  assert.deepEqual(error.internal, { path: '/x' });
  assert.equal(error.cause.code, 'ENOSPC');
  assert.match(error.cause.stack, /disk full/);
});

test('an error made of several shows each of them', () => {
  const { logger, lines } = capture('json');
  logger.warn({ error: new AggregateError([new Error('first'), new Error('second')], 'both failed') }, 'no metadata');
  const { error } = JSON.parse(lines[0]!);
  assert.deepEqual(
    error.errors.map(({ message }: Error) => message),
    ['first', 'second'],
  );
});

test('a cyclic field is cut off instead of ending the process', () => {
  const { logger, lines } = capture('json');
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  logger.info({ loop }, 'round');
  assert.match(lines[0]!, /too deep/);
});

test('a text line is one line for a person, and what a client sent cannot start another', () => {
  const { logger, lines } = capture('text');
  logger.info({ table: 'a$t', rows: 5, name: 'two words', forged: 'x\n12:00:00 ERROR' }, 'merged');
  assert.match(
    lines[0]!,
    /^\d\d:\d\d:\d\d\.\d{3} INFO {2}merged table=a\$t rows=5 name="two words" forged="x\\n12:00:00 ERROR"\n$/,
  );
});

test('a text line shows the stack of an error and its causes below', () => {
  const { logger, lines } = capture('text');
  logger.error({ error: new Error('outer', { cause: new Error('inner') }) }, 'failed');
  assert.match(lines[0]!, /ERROR failed\n {4}Error: outer\n {4}at .*caused by\n {4}Error: inner\n/s);
});
