/** The service shows a certificate from files that may change while it runs, as those of its key may. */
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { AccessSetupError } from '../auth/challenge.ts';
import { readPrivateFile } from '../auth/private-file.ts';
import type { Clock } from '../kernel/clock.ts';
import { codeOf } from '../kernel/errors.ts';
import type { Logger } from '../telemetry/logger.ts';

interface CertificateFilesParts {
  /** PEM; the service's own certificate first, then those between it and the CA. */
  readonly certificatePath: string;
  /** They are PEM, without a passphrase. */
  readonly keyPath: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Pair extends SecureContextOptions {
  readonly cert: string;
  readonly key: string;
}

export class CertificateFiles {
  readonly #parts: CertificateFilesParts;
  #pair: Pair;
  readonly #shownBy: ((options: SecureContextOptions) => void)[] = [];
  #cancel: () => void = () => undefined;
  #isClosed = false;

  private constructor(parts: CertificateFilesParts, pair: Pair) {
    this.#parts = parts;
    this.#pair = pair;
  }

  /** `AccessSetupError` for files that cannot be read or used, and for a key that other users may read. Looks for changes until `close`. */
  static async open(parts: CertificateFilesParts): Promise<CertificateFiles> {
    const files = new CertificateFiles(parts, await readPair(parts));
    files.#lookLater();
    return files;
  }

  get options(): SecureContextOptions {
    return this.#pair;
  }

  /** `show` is called with each later pair: handshakes from then on use it, and connections that are open stay. */
  onChange(show: (options: SecureContextOptions) => void): void {
    this.#shownBy.push(show);
  }

  /** Files that cannot be used change nothing; the log says so. Never rejects. */
  async reload(): Promise<void> {
    const { certificatePath, logger } = this.#parts;
    try {
      const pair = await readPair(this.#parts);
      if (pair.cert === this.#pair.cert && pair.key === this.#pair.key) return;
      this.#pair = pair;
      for (const show of this.#shownBy) show(pair);
      logger.info({ certificatePath }, 'the service shows another certificate from now on');
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      logger.error({ certificatePath, problem }, 'the certificate stays as it is');
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  #lookLater(): void {
    if (this.#isClosed) return;
    this.#cancel = this.#parts.clock.schedule(60_000, () => void this.reload().then(() => this.#lookLater()));
  }
}

/** Certificates of the CA that vouches for the other replicas. `AccessSetupError` where the file has none. */
export async function readCa(path: string): Promise<string> {
  const text = await readText(path);
  if (!text.includes('-----BEGIN CERTIFICATE-----'))
    throw new AccessSetupError(`${path} has no certificate in PEM form.`);
  return text;
}

async function readPair({ certificatePath, keyPath }: CertificateFilesParts): Promise<Pair> {
  const key = await readPrivateFile(keyPath).catch((error: unknown) => Promise.reject(unreadable(keyPath, error)));
  if (key === undefined) throw new AccessSetupError(`${keyPath} is missing.`);
  const pair: Pair = { cert: await readText(certificatePath), key, minVersion: 'TLSv1.2' };
  try {
    createSecureContext(pair);
  } catch (cause) {
    // What the library says names the kind of the mistake, and nothing of a key.
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new AccessSetupError(`${certificatePath} and ${keyPath} are no certificate and its key: ${message}.`, {
      cause,
    });
  }
  return pair;
}

const readText = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch((error: unknown) => Promise.reject(unreadable(path, error)));

function unreadable(path: string, error: unknown): unknown {
  const code = codeOf(error);
  return code === undefined ? error : new AccessSetupError(`${path} cannot be read (${code}).`, { cause: error });
}
