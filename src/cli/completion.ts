/**
 * `lancegate completion SHELL` prints a script for a shell, which asks `lancegate completion words -- WORDS` at each Tab. So it goes on
 * being right when the program is replaced by a newer one.
 */
import type { Option } from '../config/options.ts';
import { settings } from '../config/settings.ts';
import { didYouMean } from '../kernel/nearest-word.ts';
import { type Command, type CommandGroup, UsageError, write } from './command.ts';

type Commands = readonly (Command | CommandGroup)[];

const bash = `# In ~/.bashrc: source <(lancegate completion bash)
_lancegate() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _lancegate lancegate
`;

const zsh = `#compdef lancegate
# In ~/.zshrc, after compinit: source <(lancegate completion zsh)
_lancegate() {
  local -a found
  found=("\${(@f)$("\${words[1]}" completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${found[1]}" ]]; then compadd -- "\${found[@]}"; else _files; fi
}
if [[ "\${funcstack[1]}" == _lancegate ]]; then _lancegate; else compdef _lancegate lancegate; fi
`;

const fish = `# lancegate completion fish > ~/.config/fish/completions/lancegate.fish
function __lancegate_words
    set -l typed (commandline -opc) (commandline -ct)
    set -l found ($typed[1] completion words -- $typed[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c lancegate -f -a '(__lancegate_words)'
`;

const scripts: ReadonlyMap<string, string> = new Map(Object.entries({ bash, zsh, fish }));

export const completionCommand = (commands: () => Commands): Command => ({
  name: 'completion',
  positionals: [...scripts.keys()].join('|'),
  summary: 'Prints a script with which a shell completes commands and flags; its first lines say where it belongs.',
  options: [],

  async run([shell = '', ...words], context) {
    if (shell === 'words')
      return write(
        context.stdout,
        wordsAfter(words, commands())
          .map((word) => `${word}\n`)
          .join(''),
      );
    if (words[0] !== undefined) throw new UsageError([`unexpected argument ${JSON.stringify(words[0])}`]);
    const script = scripts.get(shell);
    if (script !== undefined) return write(context.stdout, script);
    const meant = didYouMean(shell, scripts.keys(), (found) => found);
    throw new UsageError([`completion takes the name of a shell: ${[...scripts.keys()].join(', ')}${meant}`]);
  },
});

/** Answers what can stand in the place of the last of `typed`, which may be a part of it: nothing where the shell knows better. */
function wordsAfter(typed: readonly string[], commands: Commands): readonly string[] {
  const words = typed
    .map((word, at) => (word === '=' && at === typed.length - 1 ? '' : word))
    .filter((word) => word !== '=');
  const current = words.at(-1) ?? '';
  // The negation of each switch would hide the others.
  return candidates(words.slice(0, -1), commands).filter(
    (word) => word.startsWith(current) && (!word.startsWith('--no-') || current.startsWith('--no')),
  );
}

function candidates(before: readonly string[], commands: Commands): readonly string[] {
  const [first, ...rest] = before;
  if (first === undefined) return [...commands.map(({ name }) => name), 'help', '--help', '--version'];
  if (first === 'help') return rest.length === 0 ? commands.map(({ name }) => name) : [];
  const found = commands.find((command) => command.name === first || ('alias' in command && command.alias === first));
  if (found === undefined) return [];
  if ('run' in found) {
    const flags = flagsOf(found, rest.at(-1));
    return rest.length === 0 ? [...wordsIn(found.positionals ?? ''), ...flags] : flags;
  }
  const [verb, ...others] = rest;
  if (verb === undefined) return [...found.commands.map(({ name }) => name), '--help'];
  const command = found.commands.find(({ name }) => name === verb);
  return command === undefined ? [] : flagsOf(command, others.at(-1));
}

function flagsOf(command: Command, previous: string | undefined): readonly string[] {
  const options = command.takesAllSettings
    ? [...Object.values<Option<unknown>>(settings), ...command.options]
    : command.options;
  const given = options.find(({ flag }) => previous === `--${flag}`);
  if (given !== undefined && given.type.arity !== 'switch') return wordsIn(given.type.placeholder);
  const spellings = options.flatMap(({ flag, type }) =>
    type.arity === 'switch' ? [`--${flag}`, `--no-${flag}`] : [`--${flag}`],
  );
  return [...new Set(spellings), '--help'];
}

/** A placeholder such as `log|off|PATH` has the words that are meant as they are. */
const wordsIn = (placeholder: string): readonly string[] =>
  placeholder.includes('|') ? placeholder.split('|').filter((word) => word === word.toLowerCase()) : [];
