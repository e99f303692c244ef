import { invalidInput } from '../kernel/errors.ts';
import type { BranchName } from '../kernel/ids.ts';

/** `field` names the parameter in errors. Absent, blank and `main` are main, which is undefined. */
export function parseBranch(text: string | undefined, field = 'branch'): BranchName | undefined {
  if (text === undefined || text.trim() === '' || text === 'main') return undefined;
  return parseBranchName(text, field);
}

/** A branch other than main, by Lance's rules (`check_valid_branch` in refs.rs), and no segment that is `.`. */
export function parseBranchName(text: string, field: string): BranchName {
  const fault = faultOf(text);
  if (fault !== undefined) throw invalidInput(`${field}: a branch name ${fault}`);
  return text as BranchName;
}

function faultOf(name: string): string | undefined {
  if (name === '') return 'must not be empty';
  if (name === 'main') return 'other than main is needed here';
  // It is a part of the paths of the branch's files.
  if (Buffer.byteLength(name) > 255) return 'has at most 255 bytes';
  if (name.includes('..')) return 'must not contain ".."';
  if (name.endsWith('.lock')) return 'must not end in ".lock"';
  const segments = name.split('/');
  if (segments.includes('')) return 'has no empty segments: no leading, trailing or double slash';
  if (segments.includes('.')) return 'has no segment "."';
  return /^[\p{Alphabetic}\p{N}._/-]+$/u.test(name) ? undefined : 'holds only letters, digits, ".", "-", "_" and "/"';
}
