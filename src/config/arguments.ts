import type { Found, Option } from './options.ts';
import { didYouMean } from './suggest.ts';

export interface ParsedArguments {
  /** By flag, without the dashes. */
  readonly flags: ReadonlyMap<string, Found>;
  readonly positionals: readonly string[];
  readonly problems: readonly string[];
}

interface Reading {
  readonly known: ReadonlyMap<string, Option<unknown>>;
  readonly flags: Map<string, Found>;
  readonly positionals: string[];
  readonly problems: string[];
}

/**
 * Splits a command line into flags and positionals. `--flag value`, `--flag=value`, for switches `--flag` and
 * `--no-flag`; `--` ends the flags. A lone `-` is a positional. Values are not looked into here.
 */
export function parseArguments(args: readonly string[], options: Iterable<Option<unknown>>): ParsedArguments {
  const known = new Map([...options].map((option) => [option.flag, option]));
  const reading: Reading = { known, flags: new Map(), positionals: [], problems: [] };
  let at = 0;
  while (at < args.length) {
    const argument = args[at]!;
    if (argument === '--') {
      reading.positionals.push(...args.slice(at + 1));
      break;
    }
    at += argument.startsWith('-') && argument !== '-' ? readFlag(reading, argument, args[at + 1]) : 1;
    if (!argument.startsWith('-') || argument === '-') reading.positionals.push(argument);
  }
  return reading;
}

/** Returns how many arguments the flag took: itself, and perhaps the next as its value. */
function readFlag(reading: Reading, argument: string, next: string | undefined): 1 | 2 {
  const [, flag = argument, inline] = /^--([^=]+)(?:=(.*))?$/s.exec(argument) ?? [];
  const negated = flag.startsWith('no-') ? reading.known.get(flag.slice(3)) : undefined;
  const option = reading.known.get(flag);
  if (option === undefined && negated?.type.arity === 'switch' && inline === undefined) {
    keep(reading, negated, 'false');
    return 1;
  }
  if (option === undefined) {
    // What looks like its value is taken along, so that one mistake makes one message.
    const hint = didYouMean(flag, reading.known.keys(), (found) => `--${found}`);
    reading.problems.push(`unknown flag ${argument.split('=', 1)[0]}${hint}`);
    return inline === undefined && next !== undefined && !next.startsWith('-') ? 2 : 1;
  }
  if (inline !== undefined) {
    keep(reading, option, inline);
    return 1;
  }
  if (option.type.arity === 'switch') {
    keep(reading, option, 'true');
    return 1;
  }
  if (next === undefined || next.startsWith('--')) {
    reading.problems.push(`--${flag} needs a value: ${option.type.expects}`);
    return 1;
  }
  keep(reading, option, next);
  return 2;
}

function keep(reading: Reading, option: Option<unknown>, text: string): void {
  const earlier = reading.flags.get(option.flag);
  if (earlier !== undefined && option.type.arity !== 'list') {
    reading.problems.push(`--${option.flag} is given more than once`);
    return;
  }
  const joined = earlier === undefined ? text : `${earlier.text},${text}`;
  reading.flags.set(option.flag, { text: joined, source: `--${option.flag}` });
}
