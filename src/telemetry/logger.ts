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
  return new RedactingLogger(
    pino(options, { write: (line: string) => void destination.write(escapeDeceptive(show(line))) }),
  );
}

class RedactingLogger implements Logger {
  readonly #pino: PinoLogger;

  constructor(target: PinoLogger) {
    this.#pino = target;
  }

  debug(fields: LogFields, message: string): void {
    this.#write('debug', fields, message);
  }
  info(fields: LogFields, message: string): void {
    this.#write('info', fields, message);
  }
  warn(fields: LogFields, message: string): void {
    this.#write('warn', fields, message);
  }
  error(fields: LogFields, message: string): void {
    this.#write('error', fields, message);
  }

  child(fields: LogFields): Logger {
    return new RedactingLogger(this.#pino.child(redactFields(fields)));
  }

  #write(level: LogLevel, fields: LogFields, message: string): void {
    if (this.#pino.isLevelEnabled(level)) this.#pino[level](redactFields(fields), redactText(message));
  }
}
