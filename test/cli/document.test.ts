/** docs/cli.md and the help say the same. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runInProcess } from './in-process.ts';

const document = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8');
const code = [...document.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block]) => block!).join('');
/** Without npm's own flag. */
const prose = document.replaceAll(/^```.*?^```/gms, '').replaceAll('npm run --silent', '');

/** By command: `serve`, `key create`. */
const helps = new Map<string, string>();
for (const name of namesIn(await helpOf())) {
  const help = await helpOf(name);
  const verbs = /^Commands:$/m.test(help) ? namesIn(help) : [];
  if (verbs.length === 0) helps.set(name, help);
  for (const verb of verbs) helps.set(`${name} ${verb}`, await helpOf(name, verb));
}

async function helpOf(...words: readonly string[]): Promise<string> {
  const { code: exitCode, stdout, stderr } = await runInProcess([...words, '--help']);
  assert.equal(exitCode, 0, stderr);
  return stdout.toString();
}

/** Names begin two columns in, what is said of them further right. */
function namesIn(help: string): readonly string[] {
  const [, commands = ''] = /^Commands:\n(.*?)^$/ms.exec(`${help}\n\n`) ?? [];
  return [...commands.matchAll(/^ {2}([\w-]+)/gm)].map(([, name]) => name!).filter((name) => name !== 'help');
}

const flagsIn = (text: string): ReadonlySet<string> =>
  new Set([...text.matchAll(/^ {2}--(?:\[no-\])?([\w-]+)/gm)].map(([, flag]) => flag!));

/** Its own, which are no settings of the service. */
const ownFlags = (help: string): ReadonlySet<string> => flagsIn(/^Flags:\n(.*?)^$/ms.exec(`${help}\n\n`)?.[1] ?? '');

const flagsOf = (command: string): ReadonlySet<string> => {
  const help = helps.get(command)!;
  const takesAll = /Takes all flags of\s+serve/.test(help);
  return new Set([...flagsIn(help), ...(takesAll ? flagsIn(helps.get('serve')!) : [])]);
};

test('every command of the help has its place in docs/cli.md', () => {
  assert.ok(helps.size > 15, String(helps.size));
  for (const command of helps.keys()) assert.match(prose, new RegExp(`\`${command}(?: [^\`]*)?\``), command);
});

test('every flag of a command that is no setting is in docs/cli.md', () => {
  assert.ok(ownFlags(helps.get('query')!).size > 8);
  assert.ok(!ownFlags(helps.get('query')!).has('data'));
  for (const [command, help] of helps) {
    for (const flag of ownFlags(help)) assert.match(prose, new RegExp(`\`--${flag}[\`=]`), `${command} --${flag}`);
  }
});

test('docs/cli.md names no flag that no command has', () => {
  const known = new Set([...helps.keys()].flatMap((command) => [...flagsOf(command), 'help']));
  for (const [, flag] of prose.matchAll(/--([a-z][\w-]*)/g)) assert.ok(known.has(flag!), `--${flag}`);
});

test('every example of docs/cli.md is a command with flags that it takes', () => {
  const examples = [...code.matchAll(/lancegate ((?!\/)[a-z].*)$/gm)].map(([, example]) => example!);
  assert.ok(examples.length > 10, String(examples.length));
  for (const example of examples) {
    const [first = '', second = ''] = example.replaceAll(/[()]/g, ' ').split(/\s+/);
    const command = helps.has(`${first} ${second}`) ? `${first} ${second}` : first;
    assert.ok(helps.has(command), example);
    for (const [, flag] of example.matchAll(/ --([\w-]+)/g)) assert.ok(flagsOf(command).has(flag!), example);
  }
});

test('docs/cli.md has the exit codes of the help', async () => {
  const [, said] = /^Exit codes: (.*)\.$/m.exec(await helpOf()) ?? [];
  for (const [, exitCode, words] of said!.matchAll(/(\d) ([^,]+)/g)) {
    assert.match(prose, new RegExp(`^\\| ${exitCode} \\| ${words}`, 'm'), exitCode);
  }
});
