/** What lies where in the data folder. Nothing else knows these names. */
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { codeOf } from '../kernel/errors.ts';

export interface DataFolder {
  readonly root: string;
  readonly issuerKeyFile: string;
  readonly apiKeysFile: string;
  readonly catalogFile: string;
  /** JSON with the `url` of the service that holds the catalog, while one does. */
  readonly holderFile: string;
  /** What the catalog in the folder has, too: no other catalog is taken for it. */
  readonly catalogIdFile: string;
  /** It is the storage root, unless the configuration names another. */
  readonly tablesFolder: string;
  /** Files that no restart needs. */
  readonly scratchFolder: string;
}

export const dataFolderAt = (root: string): DataFolder => ({
  root,
  issuerKeyFile: join(root, 'issuer-key.json'),
  apiKeysFile: join(root, 'api-keys.sqlite'),
  catalogFile: join(root, 'catalog.sqlite'),
  holderFile: join(root, 'lancegate.holder.json'),
  catalogIdFile: join(root, 'catalog-id'),
  tablesFolder: join(root, 'tables'),
  scratchFolder: join(root, 'scratch'),
});

/** The data folder cannot be protected from other users. The message says why and what to do. */
class DataFolderUnsafe extends Error {
  override readonly name = 'DataFolderUnsafe';
}

export interface PrivateFolder extends DataFolder {
  /** If this call closed the folder, it had this mode, such as `0755`. */
  readonly wasOpenAs: string | undefined;
}

/** POSIX has it: it is undefined on systems without user ids, and 0 for root. */
type UserId = number | undefined;

const privateFolder = 0o700;

/**
 * Creates a missing folder for its owner only: it holds the key that signs tokens, and the catalog. If other users can access
 * an existing one, closes it and its files, except the tables, whose modes then only matter to users whom the operator gives
 * another path. `DataFolderUnsafe` if another user owns the folder or a file in it: that user could open it again, or has
 * written a file that the service would trust. The `node:fs` error if it cannot be created.
 */
export function makeDataFolder(root: string, user: UserId = process.getuid?.()): PrivateFolder {
  requireOwn(root, user);
  makePrivateFolder(root);
  requireOwn(root, user);
  const folder = dataFolderAt(root);
  const wasOpenAs = closeFolder(root);
  // The key files are not among them: their readers refuse open ones, since closing them would hide that others may have
  // read them.
  for (const path of [
    ...['', '-wal', '-shm', '-journal'].map((ending) => `${folder.catalogFile}${ending}`),
    folder.holderFile,
  ])
    closeFile(path, user);
  return { ...folder, wasOpenAs };
}

/**
 * Creates a missing folder, and those above it, for its owner only; an existing one keeps its mode. Node's own recursion never ends
 * where the folder above is there and takes none, as that of /proc.
 */
export function makePrivateFolder(path: string): void {
  try {
    mkdirSync(path, { mode: privateFolder });
  } catch (error) {
    const code = codeOf(error);
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error;
    makePrivateFolder(dirname(path));
    makePrivateFolder(path);
  }
}

/** As `makePrivateFolder`, and empties an existing one, which may be a file system of its own. A link is replaced, not followed. */
export function makeEmptyFolder(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === false) rmSync(path);
  makePrivateFolder(path);
  for (const name of readdirSync(path)) rmSync(join(path, name), { recursive: true });
}

/** Checks both a symbolic link and its target. */
function requireOwn(path: string, user: UserId): void {
  if (user === undefined || user === 0) return;
  for (const look of [lstatSync, statSync]) {
    const uid = look(path, { throwIfNoEntry: false })?.uid;
    if (uid === undefined || uid === user || (uid === 0 && look === lstatSync && lstatSync(path).isSymbolicLink()))
      continue;
    throw new DataFolderUnsafe(
      `${path} belongs to another user (${uid}), who can read and change what is in it. ` +
        (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
          ? `Name a folder of this user's (${user}), or one that is missing yet, such as ${join(path, 'lancegate')}.`
          : `If you trust what is in it, give it to this user (${user}).`),
    );
  }
}

function closeFolder(path: string): string | undefined {
  const { mode } = statSync(path);
  if (!isOpen(mode)) return undefined;
  chmodSync(path, privateFolder);
  requireClosed(path);
  return showMode(mode);
}

function closeFile(path: string, user: UserId): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  requireOwn(path, user);
  if (isOpen(found.mode)) chmodSync(path, 0o600);
}

/** Some mounted file systems take every mode and keep none. */
function requireClosed(path: string): void {
  const { mode } = statSync(path);
  if (!isOpen(mode) || process.platform === 'win32') return;
  throw new DataFolderUnsafe(
    `${path} has mode ${showMode(mode)}: other users can access it, and its file system does not keep a stricter mode.`,
  );
}

const isOpen = (mode: number): boolean => (mode & 0o077) !== 0;
const showMode = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, '0');
