import { join } from 'node:path';

/** A branch is a dataset of its own inside the dataset's folder; names with `/` lie deeper. */
export const branchFolder = (datasetPath: string, branch: string | undefined): string =>
  branch === undefined ? datasetPath : join(datasetPath, 'tree', branch);

/** Where a dataset keeps one file per branch. */
export const branchRecords = (datasetPath: string): string => join(datasetPath, '_refs', 'branches');

/** The file that says a branch exists, and from where. Names hold nothing but letters, digits, `.`, `-`, `_` and `/`. */
export const branchRecord = (datasetPath: string, branch: string): string =>
  join(branchRecords(datasetPath), `${encodeURIComponent(branch)}.json`);
