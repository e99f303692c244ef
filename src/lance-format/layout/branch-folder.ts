import { join } from 'node:path';

/** A branch is a dataset of its own inside the dataset's folder; names with `/` lie deeper. */
export const branchFolder = (datasetPath: string, branch: string | undefined): string =>
  branch === undefined ? datasetPath : join(datasetPath, 'tree', branch);

/** What the engine accepts; another name, made into a path, could be that of another branch. */
export const isBranchName = (name: string): boolean =>
  name.split('/').every((segment) => /^[\p{Alphabetic}\p{N}._-]+$/u.test(segment) && !/^\.+$/.test(segment));

/** Where a dataset keeps one file per branch. */
export const branchRecords = (datasetPath: string): string => join(datasetPath, '_refs', 'branches');

/** The file that says a branch exists, and from where. */
export const branchRecord = (datasetPath: string, branch: string): string =>
  join(branchRecords(datasetPath), `${encodeURIComponent(branch)}.json`);

/**
 * Where this service has files that are not part of a dataset or branch, in the folder of that. Branches have their folders
 * below the same; none can have a name with this sign in it.
 */
export const stagingFolder = (folder: string): string => join(folder, 'lancegate=staging');
