import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { actionScopes } from '#src/auth/policy/actions.ts';
import { CedarPolicy } from '#src/auth/policy/cedar-policy.ts';

const text = readFileSync(new URL('../../docs/access.md', import.meta.url), 'utf8');

describe('docs/access.md', () => {
  it('names every action, under its group', () => {
    for (const group of new Set(Object.values(actionScopes))) {
      const actions = Object.entries(actionScopes).filter(([, scope]) => scope === group);
      const row = `| \`${group}\` | ${actions.map(([action]) => `\`${action}\``).join(', ')} |`;
      assert.ok(text.replaceAll(/ +/g, ' ').includes(row), row);
    }
  });

  it('shows policies that the service accepts without a remark', () => {
    const examples = [...text.matchAll(/```cedar\n(.*?)```/gs)].map(([, example = '']) => example);
    assert.ok(examples.length > 1);
    const remarks: unknown[] = [];
    const logger = { warn: (fields: unknown) => void remarks.push(fields), error: () => {} };
    for (const example of examples) CedarPolicy.load({ source: { name: 'access.md', text: example }, logger });
    assert.deepEqual(remarks, []);
  });
});
