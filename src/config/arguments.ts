import { parseArgs } from 'node:util';
import { didYouMean } from '../kernel/nearest-word.ts';
import type { Found, Option } from './options.ts';

interface ParsedArguments {
  /** Flags stand here without the dashes. */
  readonly flags: ReadonlyMap<string, Found>;
  readonly positionals: readonly string[];
  readonly problems: readonly string[];
}

/**
 * Splits a command line into flags and positionals. `--flag value`, `--flag=value`, where a value may begin as `-7` does, for switches `--flag` and
 * `--no-flag`; `--` ends the flags. A lone `-` is a positional. Values are checked by `readOptions`.
 */
export function parseArguments(args: readonly string[], options: Iterable<Option<unknown>>): ParsedArguments {
  const known = new Map([...options].map((option) => [option.flag, option]));
  // It is only the tokenizer: its own errors end at the first mistake, and suggest nothing.
  const { tokens } = parseArgs({ args: [...args], strict: false, allowNegative: true, tokens: true });
  const flags = new Map<string, Found>();
  const problems: string[] = [];
  const valueIndices = new Set<number>();
  const valueAfter = (index: number): string | undefined => {
    const next = tokens.find((token) => token.index === index + 1);
    const text = args[index + 1];
    // It is a number, or the first of several: no flag begins with a digit.
    if (text === undefined || (next?.kind !== 'positional' && !/^-\.?\d/.test(text))) return undefined;
    valueIndices.add(index + 1);
    return text;
  };
  const keep = ({ flag, type }: Option<unknown>, text: string): void => {
    const earlier = flags.get(flag);
    if (earlier === undefined) flags.set(flag, { text, source: `--${flag}` });
    else if (type.arity === 'list') flags.set(flag, { ...earlier, text: `${earlier.text},${text}` });
    else problems.push(`--${flag} is given more than once`);
  };
  const refuse = (rawName: string): void => {
    const hint = didYouMean(rawName.replace(/^--/, ''), known.keys(), (found) => `--${found}`);
    problems.push(`unknown flag ${rawName}${hint}`);
  };
  for (const { name, rawName, value, index } of tokens.filter((token) => token.kind === 'option')) {
    if (valueIndices.has(index)) continue;
    const option = known.get(name);
    const isPlain = rawName === `--${name}`;
    // Also of an unknown flag, so that one mistake makes one message.
    const text = option?.type.arity === 'switch' ? (value ?? String(isPlain)) : (value ?? valueAfter(index));
    if (option === undefined || (!isPlain && option.type.arity !== 'switch')) refuse(rawName);
    else if (text === undefined) problems.push(`--${name} needs a value: ${option.type.expects}`);
    else keep(option, text);
  }
  const positionals = tokens.flatMap((token) =>
    token.kind === 'positional' && !valueIndices.has(token.index) ? [token.value] : [],
  );
  return { flags, positionals, problems };
}
