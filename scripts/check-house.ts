/**
 * Holds what no linter knows of this repository: the figures of the house, and that what comments and documents name exists.
 *   node scripts/check-house.ts [root of a repository]
 */
import { join, resolve } from 'node:path';
import { budgets } from './house/budgets.ts';
import { figures } from './house/figures.ts';
import { readHouse, type Violation } from './house/house.ts';
import { namedThings } from './house/named-things.ts';

const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'));
const house = readHouse(root);
const violations: readonly Violation[] = [...figures(house), ...budgets(root, house), ...namedThings(house)];
for (const { path, line, text } of violations) console.error(`${path}:${line} ${text}`);
console.error(
  `${house.code.length} files and ${house.documents.length} documents read, ${violations.length} violations`,
);
process.exitCode = violations.length === 0 ? 0 : 1;
