/**
 * The own issuer has its key in a file of the data folder.
 *
 * Its reader can mint a token for any principal, so it has mode 0600, and a file that others may read is refused. Each write
 * replaces the file atomically, also across a crash. Two concurrent rotations would lose the key of one, so a rotation holds a
 * lock file; the first key needs none (see `createPrivateFile`).
 */
import { open, rm, stat } from 'node:fs/promises';
import type { IssuerKeyRecords } from '../../catalog/credentials.ts';
import { AccessSetupError } from '../challenge.ts';
import { createPrivateFile, privateMode, readPrivateFile, replacePrivateFile } from '../private-file.ts';

export class IssuerKeyFile implements IssuerKeyRecords {
  readonly name: string;

  constructor(path: string) {
    this.name = path;
  }

  async signature(): Promise<string> {
    const found = await stat(this.name, { bigint: true }).catch(() => undefined);
    return found === undefined ? 'missing' : [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(':');
  }

  read(): Promise<string | undefined> {
    return readPrivateFile(this.name);
  }

  create(document: string): Promise<void> {
    return createPrivateFile(this.name, document);
  }

  replace(next: (document: string) => Promise<string>): Promise<void> {
    return whileLocked(`${this.name}.lock`, async () => {
      const document = await this.read();
      if (document === undefined) throw new AccessSetupError(`${this.name} was removed.`);
      await replacePrivateFile(this.name, await next(document));
    });
  }
}

async function whileLocked<Result>(lockFile: string, run: () => Promise<Result>): Promise<Result> {
  const lock = await open(lockFile, 'wx', privateMode).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EEXIST') throw cause;
    throw new AccessSetupError(`Another rotation is under way. If a crash ended it, remove ${lockFile} and try again.`);
  });
  try {
    return await run();
  } finally {
    await lock.close();
    await rm(lockFile, { force: true });
  }
}
