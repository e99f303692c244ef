/** Where the names of branches lead on storage, as Lance has it: the branch `a/b` is the folder `tree/a/b` of its table. */

/** A branch has these in its folder, beside the folders of branches whose names begin with its own. */
const foldersOfDataset: ReadonlySet<string> = new Set([
  ...['data', '_versions', '_transactions', '_deletions', '_indices', '_refs', '_blobs', '_mem_wal', 'tree'],
]);

/** Equal for names that some file system takes for one: it may ignore case, the form of Unicode, or dots at the end. */
const foldedSegments = (name: string): readonly string[] =>
  name
    .split('/')
    .map((segment) =>
      segment.normalize('NFKC').toUpperCase().toLowerCase().replaceAll('i\u0307', 'i').replace(/\.+$/, ''),
    );

/** Such a branch would lie in the files of another one, and be removed with them, or they with it. */
export const hasFolderOfDataset = (name: string): boolean =>
  foldedSegments(name).some((segment, index) => index > 0 && foldersOfDataset.has(segment));

/** The engine takes the first part for main, and deletes the whole table with the last such branch. */
export const isBelowMain = (name: string): boolean => name.startsWith('main/');

/** Says whether `inner` lies in a folder that `outer` has files in. */
export function liesInFilesOf(outer: string, inner: string): boolean {
  const [around, within] = [foldedSegments(outer), foldedSegments(inner)];
  return (
    around.every((segment, index) => segment === within[index]) && foldersOfDataset.has(within[around.length] ?? '')
  );
}

/**
 * The name of the file that the engine writes before a branch exists: the branch's name, escaped twice, and this much, of which a
 * part is random.
 */
const bytesBesideName = '.json.tmp.'.length + 32 + '#999'.length;

/** `storedBytes` may be so many: file systems allow names of 255 bytes. */
export const mostStoredBytes = 255 - bytesBesideName;

/** A slash, and each byte of what is no letter of ASCII, takes five. */
export const storedBytes = (name: string): number => encodeURIComponent(encodeURIComponent(name)).length;
