import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type AccessRequest, type Action, actionScopes } from '#src/auth/policy/actions.ts';
import { CedarPolicy } from '#src/auth/policy/cedar-policy.ts';
import type { BranchName } from '#src/kernel/ids.ts';
import type { Principal } from '#src/kernel/request-scope.ts';
import { namespace, principal, request, table } from './requests.ts';

const silent = { warn: () => {}, error: () => {} };
const load = (text?: string) =>
  CedarPolicy.load({ source: text === undefined ? undefined : { name: 'policies.cedar', text }, logger: silent });

const actions = Object.keys(actionScopes) as Action[];
const allowedActions = (policy: CedarPolicy, changes: Partial<AccessRequest>) =>
  actions.filter((action) => policy.allows(request({ ...changes, action })));
const actionsOf = (...groups: string[]) => actions.filter((action) => groups.includes(actionScopes[action]));

describe('the default policies (P9)', () => {
  const policy = load();
  const matrix: readonly (readonly [scopes: readonly string[], allowed: readonly Action[]])[] = [
    [[], []],
    [['openid', 'read', 'lancegate:', 'lancegate:reader'], []],
    [['lancegate:read'], actionsOf('read')],
    [['lancegate:write'], actionsOf('read', 'write')],
    [['lancegate:admin'], actions],
    [['openid', 'lancegate:write', 'lancegate:read'], actionsOf('read', 'write')],
  ];

  for (const [scopes, allowed] of matrix) {
    it(`allow ${allowed.length} of ${actions.length} actions to the scopes '${scopes.join(' ')}'`, () => {
      for (const resource of [namespace(), namespace('a', 'b'), table('t'), table('a', 'b', 't')]) {
        assert.deepEqual(allowedActions(policy, { principal: principal({ scopes }), resource }), allowed);
      }
    });
  }
});

describe('the scope that would be enough', () => {
  it('is known while the default policies decide, and is the least of those that allow the action', () => {
    const policy = load();
    assert.equal(policy.scopeFor('CountTableRows'), 'lancegate:read');
    assert.equal(policy.scopeFor('OverwriteTable'), 'lancegate:write');
    assert.equal(policy.scopeFor('DropTable'), 'lancegate:admin');
    for (const action of actions) {
      const scopes = [policy.scopeFor(action) ?? ''];
      assert.equal(policy.allows(request({ action, principal: principal({ scopes }) })), true, action);
    }
  });

  it("is not known under an operator's policies, also when they came later", () => {
    const text = 'permit (principal, action, resource);';
    assert.equal(load(text).scopeFor('DropTable'), undefined);
    const policy = load();
    policy.replace({ name: 'policies.cedar', text, remarks: [] });
    assert.equal(policy.scopeFor('DropTable'), undefined);
  });
});

describe("an operator's policies (P9)", () => {
  it('permit in one namespace two levels deep, and in none that is merely named alike', () => {
    const policy = load('permit (principal, action, resource in Namespace::"a$b");');
    const inside = [namespace('a', 'b'), namespace('a', 'b', 'c'), table('a', 'b', 't'), table('a', 'b', 'c', 't')];
    const outside = [
      ...[namespace(), namespace('a'), namespace('a$b'), namespace('ab'), namespace('a', 'bc'), namespace('b')],
      ...[table('a', 'b'), table('a$b', 't'), table('a$b$t'), table('a', 'ab', 't'), table('b', 'a', 't')],
      ...[namespace('a%24b'), table('a%24b', 't'), namespace('x', 'a', 'b')],
    ];
    for (const resource of inside) assert.equal(policy.allows(request({ resource })), true, JSON.stringify(resource));
    for (const resource of outside) assert.equal(policy.allows(request({ resource })), false, JSON.stringify(resource));
  });

  it('name a $ and a % inside a name by an escape', () => {
    const policy = load('permit (principal, action, resource in Namespace::"a%24b%25");');
    assert.equal(policy.allows(request({ resource: table('a$b%', 't') })), true);
    assert.equal(policy.allows(request({ resource: table('a', 'b%', 't') })), false);
  });

  it('replace the default ones', () => {
    const policy = load('permit (principal == Principal::"bob", action, resource);');
    assert.equal(policy.allows(request({ principal: principal({ scopes: ['lancegate:admin'] }) })), false);
    assert.equal(policy.allows(request({ principal: principal({ subject: 'bob' }) })), true);
  });

  it('forbid on a branch, main included, whatever else permits', () => {
    const policy = load(`
      permit (principal, action, resource);
      forbid (principal, action in Action::"write", resource) when { context.branch == "main" };`);
    assert.equal(policy.allows(request({ branch: undefined })), false);
    assert.equal(policy.allows(request({ branch: 'dev' as BranchName })), true);
    assert.equal(policy.allows(request({ branch: undefined, action: 'DescribeTable' })), true);
  });

  it('permit members of a group, and tell groups from people of the same name', () => {
    const policy = load('permit (principal in Group::"crew", action in [Action::"read", Action::"write"], resource);');
    const allowed = (changes: Partial<Principal>) => allowedActions(policy, { principal: principal(changes) });
    assert.deepEqual(allowed({ groups: ['other', 'crew'] }), actionsOf('read', 'write'));
    assert.deepEqual(allowed({ groups: ['crews'] }), []);
    assert.deepEqual(allowed({ subject: 'crew' }), []);
  });

  it('see the attributes of who asks and of what is asked for', () => {
    const policy = load(`permit (principal, action == Action::"DropTable", resource is Table) when {
      principal.issuer == "https://login.test" && principal.subject == "ann" && resource.name like "tmp_*" };`);
    const dropping = { action: 'DropTable', resource: table('a', 'tmp_1') } as const;
    assert.equal(policy.allows(request(dropping)), true);
    assert.equal(policy.allows(request({ ...dropping, resource: table('tmp_1', 'a') })), false);
    assert.equal(policy.allows(request({ ...dropping, resource: namespace('tmp_1') })), false);
    assert.equal(policy.allows(request({ ...dropping, principal: principal({ issuer: 'api-key' }) })), false);
  });

  it('are not confused by names that look like their language', () => {
    const policy = load('permit (principal == Principal::"a\\"b", action, resource in Namespace::"q\\"\\\\");');
    const resource = table('q"\\', 't\n", resource');
    assert.equal(policy.allows(request({ resource, principal: principal({ subject: 'a"b' }) })), true);
    assert.equal(policy.allows(request({ resource, principal: principal({ subject: 'a\\"b' }) })), false);
    const odd = principal({ subject: 'x" || true //', groups: ['"', '\\', '\u0000', '', '__entity'] });
    assert.equal(policy.allows(request({ resource, principal: odd })), false);
  });
});

describe('remembered decisions', () => {
  it('are of one principal, not of all of its name', () => {
    const policy = load();
    assert.equal(policy.allows(request({ principal: principal({ scopes: ['lancegate:write'] }) })), true);
    assert.equal(policy.allows(request({ principal: principal({ scopes: ['lancegate:read'] }) })), false);
  });

  it('are of one action, resource and branch', () => {
    const policy = load(`permit (principal, action == Action::"DescribeTable", resource == Table::"a$t")
      when { context.branch == "dev" };`);
    const ann = principal();
    const allowed = {
      principal: ann,
      action: 'DescribeTable',
      resource: table('a', 't'),
      branch: 'dev',
    } as AccessRequest;
    for (let round = 0; round < 2; round += 1) {
      assert.equal(policy.allows(allowed), true);
      assert.equal(policy.allows({ ...allowed, action: 'DropTable' }), false);
      assert.equal(policy.allows({ ...allowed, branch: undefined }), false);
      assert.equal(policy.allows({ ...allowed, resource: table('a$t') }), false);
      assert.equal(policy.allows({ ...allowed, resource: namespace('a', 't') }), false);
    }
  });

  it('are of one service: two in one process do not share policies', () => {
    const ann = principal();
    const open = load('permit (principal, action, resource);');
    const closed = load('forbid (principal, action, resource);');
    assert.equal(open.allows(request({ principal: ann })), true);
    assert.equal(closed.allows(request({ principal: ann })), false);
    assert.equal(open.allows(request({ principal: ann, resource: table('new') })), true);
  });
});

describe('a policy that cannot be evaluated', () => {
  it('denies, and says so once in the log', () => {
    const lines: unknown[] = [];
    const logger = { warn: () => {}, error: (...line: unknown[]) => void lines.push(line) };
    const text = `permit (principal, action, resource);
      permit (principal, action, resource) when { 9223372036854775807 + 1 > 0 };`;
    const policy = CedarPolicy.load({ source: { name: 'p', text }, logger });
    const ann = principal();
    assert.equal(policy.allows(request({ principal: ann })), false);
    assert.equal(policy.allows(request({ principal: ann })), false);
    assert.equal(lines.length, 1);
    assert.match(JSON.stringify(lines[0]), /overflow.*denied/);
  });

  it('denies an action the schema does not know', () => {
    const policy = load('permit (principal, action, resource);');
    assert.equal(policy.allows(request({ action: 'Nonsense' as Action })), false);
  });
});

describe('a broken policy file stops the start with its position', () => {
  const broken: readonly (readonly [what: string, text: string, message: RegExp])[] = [
    [
      'a mistake in the syntax, behind characters of several bytes',
      '// ünïcødé 😀\npermit (principal, action, resource);\npermit (principal, action resource);',
      /^policies\.cedar:3:27: unexpected token `resource`/,
    ],
    ['an end too early', 'permit (principal, action, resource', /^policies\.cedar:1:36: unexpected end of input/],
    [
      'an attribute that does not exist',
      'permit (principal, action, resource)\nwhen { principal.scope.contains("x") };',
      /^policies\.cedar:2:8: attribute `scope`.*did you mean `scopes`/,
    ],
    [
      'an action that does not exist',
      '\n\npermit (principal, action == Action::"CreateTabel", resource);',
      /^policies\.cedar:3:30: unrecognized action.*CreateTabel.*did you mean/,
    ],
    ['a type that does not exist', 'permit (principal is User, action, resource);', /^policies\.cedar:1:22: .*User/],
    ['no policy at all', '// to be written\n', /^policies\.cedar:1:1: .*no policy/],
    ['a template', 'permit (principal == ?principal, action, resource);', /^policies\.cedar:1:1: .*template/],
  ];

  for (const [what, text, message] of broken) {
    it(what, () => {
      assert.throws(() => load(text), { name: 'AccessSetupError', message });
    });
  }

  it('names every mistake', () => {
    const text = 'permit (principal is User, action, resource);\npermit (principal, action, resource is View);';
    assert.throws(() => load(text), { message: /^policies\.cedar:1:\d+: .*\npolicies\.cedar:2:\d+: / });
  });

  it('a policy that can never apply is remarked, and does not stop it', () => {
    const remarks: unknown[] = [];
    const logger = { warn: (fields: unknown) => void remarks.push(fields), error: () => {} };
    const text = 'permit (principal, action, resource);\npermit (principal, action, resource) when { false };';
    CedarPolicy.load({ source: { name: 'p.cedar', text }, logger });
    assert.match(JSON.stringify(remarks), /p\.cedar:2:1: policy is impossible/);
  });
});
