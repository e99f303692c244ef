/** Looks at what the machine gives: programs, open files, disks. */
import { accessSync, constants, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { connectionsUnder } from '../../config/fit-defaults.ts';
import { settings } from '../../config/settings.ts';
import { GiB, MiB, TiB } from '../../config/value-types.ts';
import { versionOf } from '../command.ts';
import { type Finding, failed, type Look, ok, reasonOf, warning } from './finding.ts';

export const lookAtVersions: Look = async ({ context }) => {
  const programs = `lancegate ${versionOf(context)}, Node ${process.versions.node}, ${process.platform} ${process.arch}`;
  try {
    await context.probes.engine();
    return ok(`${programs}; the engine can be loaded`);
  } catch (error) {
    return failed(
      `${programs}; the engine cannot be loaded: ${reasonOf(error)}`,
      'install lancegate again, its optional packages included, on a system for which it has one',
    );
  }
};

export const lookAtOpenFiles: Look = async ({ config, context }) => {
  const { openFiles } = context.machine;
  const most = Number(settings.maxConnections.default);
  if (openFiles === Number.POSITIVE_INFINITY) return ok('this system has no limit');
  const said = `${openFiles} at the same time, of which ${config.maxConnections} can be connections`;
  const isFitted = config.maxConnections < most && config.maxConnections === connectionsUnder(openFiles);
  if (!isFitted) return ok(said);
  return warning(
    said,
    `raise the limit of the process (ulimit -n, LimitNOFILE) to ${most + 512} for ${most} connections`,
  );
};

/** It looks at the data folder, and at that of the tables if it is another one. */
export const lookAtDisks: Look = async ({ config: { dataFolder, storageRoot } }) => {
  const isApart = !storageRoot.includes('://') && !`${storageRoot}/`.startsWith(`${dataFolder}/`);
  return [lookAtFolder(dataFolder, true), ...(isApart ? [lookAtFolder(storageRoot, false)] : [])];
};

function lookAtFolder(folder: string, isPrivate: boolean): Finding {
  const there = nearestThatExists(folder);
  try {
    accessSync(there, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    return failed(
      `${there} cannot be used by this user: ${reasonOf(error)}`,
      'run as the user of the service, or give it the folder',
    );
  }
  return there === folder && isPrivate && isForeign(folder)
    ? failed(
        `${folder} belongs to another user, who could replace its keys`,
        'give it to the user of the service, or name another by --data',
      )
    : roomIn(folder, there);
}

function nearestThatExists(path: string): string {
  const parent = dirname(path);
  return parent === path || statSync(path, { throwIfNoEntry: false }) !== undefined ? path : nearestThatExists(parent);
}

function isForeign(folder: string): boolean {
  const user = process.getuid?.();
  return user !== undefined && user !== 0 && statSync(folder).uid !== user;
}

/** statfs(2) calls them `NFS_SUPER_MAGIC`, `CIFS_SUPER_MAGIC` and `SMB2_MAGIC_NUMBER`. */
const networkFileSystems: ReadonlySet<number> = new Set([0x6969, 0xff534d42, 0xfe534d42]);

/** The service removes old versions below the same amounts. */
const leastPart = 1 / 20;
const leastBytes = 8 * GiB;

function roomIn(folder: string, there: string): Finding {
  const { bsize, blocks, bavail, files, ffree, type } = statfsSync(there);
  const made = there === folder ? '' : ', which a start makes';
  const said = `${folder}${made}: ${showRoom(bavail * bsize)} of ${showRoom(blocks * bsize)} are free`;
  if (bavail === 0) return failed(said, 'free some space: every write is refused');
  if (bavail * bsize < Math.min(leastBytes, blocks * bsize * leastPart)) {
    return warning(said, 'free some space: the service removes old versions early, and then refuses writes');
  }
  if (files > 0 && ffree < Math.min(100_000, files * leastPart)) {
    return warning(`${said}, but only ${ffree} inodes`, 'remove small files, or use a file system with more inodes');
  }
  if (networkFileSystems.has(type)) {
    return warning(
      `${said}, on a network file system`,
      'use a local disk: locks and renames of network file systems are not tested',
    );
  }
  return ok(said);
}

function showRoom(bytes: number): string {
  const [unit, size] = (
    [
      ['TiB', TiB],
      ['GiB', GiB],
    ] as const
  ).find(([, least]) => bytes >= least) ?? ['MiB', MiB];
  return `${(bytes / size).toFixed(1)} ${unit}`;
}
