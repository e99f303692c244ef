import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import { isObject } from '../kernel/json-bounds.ts';
import { redactFields, redactText } from './redact.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Readonly<Record<string, unknown>>;

/** Fields are what a program reads, the message what a person reads. Secrets in either are masked (P9). */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** Returns a logger that adds `fields` to every line. */
  child(fields: LogFields): Logger;
}

interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'text';
  /** It takes whole lines, each with its newline. */
  readonly destination: { write(line: string): unknown };
}

export function createLogger({ level, format, destination }: LoggerOptions): Logger {
  const show = format === 'json' ? (line: string) => line : textLine;
  const options = {
    level,
    base: null,
    messageKey: 'message',
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return redacting(pino(options, { write: (line: string) => void destination.write(escapeDeceptive(show(line))) }));
}

function redacting(target: PinoLogger): Logger {
  const at =
    (level: LogLevel): Logger['info'] =>
    (fields, message) => {
      if (target.isLevelEnabled(level)) target[level](redactFields(fields), redactText(message));
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => redacting(target.child(redactFields(fields))),
  };
}

/** One JSON log line as a person reads it: `13:14:15.123 INFO  table created table=users rows=50`. */
function textLine(jsonLine: string): string {
  const line: unknown = JSON.parse(jsonLine);
  const { time, level, message, error, ...fields } = isObject(line) ? line : {};
  const clockTime = String(time).slice('2026-01-01T'.length, -1);
  const words = Object.entries(fields).map(([name, value]) => `${name}=${showValue(value)}`);
  const head = [clockTime, String(level).toUpperCase().padEnd(5), message, ...words].join(' ');
  return `${head}\n${error === undefined ? '' : `${showError(error)}\n`}`;
}

/** Quoted where a plain word would be ambiguous, or could start a line of its own. */
function showValue(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=\\\p{C}]+$/u.test(value)) return value;
  return JSON.stringify(value);
}

function showError(error: unknown): string {
  if (!isObject(error)) return `    ${showValue(error)}`;
  const { stack, message, cause, ...rest } = error;
  const lines = String(stack || message || JSON.stringify(rest)).split('\n');
  const facts = Object.entries(rest).map(([name, value]) => `${name}=${showValue(value)}`);
  return [
    ...lines.map((line) => `    ${line.trimStart()}`),
    ...(facts.length === 0 ? [] : [`    ${facts.join(' ')}`]),
    ...(cause === undefined ? [] : ['    caused by', showError(cause)]),
  ].join('\n');
}

/**
 * JSON escapes the controls below a space only. These may end a line for other programs, or change what a person sees: more
 * controls, separators of lines, marks of direction, and characters without width.
 */
const deceptive = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** As JSON escapes, so the text of a JSON value stays the same. Line feeds stay. */
export const escapeDeceptive = (text: string): string =>
  text.replace(deceptive, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
