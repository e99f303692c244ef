import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import { escapeDeceptive } from './escape-deceptive.ts';
import { redactFields, redactText } from './redact.ts';
import { textLine } from './text-line.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Readonly<Record<string, unknown>>;

/** Fields are what a program reads, the message what a person reads. Secrets in either are masked (P9). */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** A logger that adds `fields` to every line. */
  child(fields: LogFields): Logger;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'text';
  /** Takes whole lines, each with its newline. */
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
