/**
 * The operator's policy file, reloaded while the service runs: on demand (SIGHUP), and when it changes.
 *
 * The service compares the content every two seconds. So it does not matter how the file changes: in place, by rename, or as
 * a symbolic link that now points elsewhere (a mounted Kubernetes ConfigMap). A change counts once two reads have found the
 * same, because an editor may be in the middle of writing, and the first half of a file can permit what its second half
 * forbids.
 *
 * A file that is broken or cannot be read changes nothing.
 */
import { hash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Clock } from '../../kernel/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { AccessSetupError } from '../challenge.ts';
import { CedarPolicy } from './cedar-policy.ts';
import { tryPolicies } from './policy-trial.ts';

/** Some eight thousand policies, which block the event loop for half a second when they come into force. */
const maxBytes = 2 ** 20;

interface PolicyFileParts {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What one read of the file found; equal digests are equal files. */
interface PolicyFileContent {
  readonly digest: string;
  readonly text?: string;
  readonly error?: unknown;
}

export class PolicyFile {
  readonly policy: CedarPolicy;
  readonly #parts: PolicyFileParts;
  #digestInForce: string;
  /** Digest of the content last judged, whether it was accepted or refused. */
  #judged: string;
  #lastSeen: string;
  /** Reads run one after the other, so that an older one never overrules a newer one. */
  #lastLook: Promise<void> = Promise.resolve();
  /** The reading that was asked for and has not begun. */
  #nextReload: Promise<void> | undefined;
  #cancelNext: () => void = () => undefined;
  #isClosed = false;

  private constructor(parts: PolicyFileParts, policy: CedarPolicy, digest: string) {
    this.policy = policy;
    this.#parts = parts;
    this.#digestInForce = digest;
    this.#judged = digest;
    this.#lastSeen = digest;
  }

  /** `AccessSetupError` for a broken file; the error of `node:fs` for one that cannot be read. Watches the file until `close`. */
  static async open(parts: PolicyFileParts): Promise<PolicyFile> {
    const text = await readPolicies(parts.path);
    const checked = await tryPolicies({ name: basename(parts.path), text });
    const policy = CedarPolicy.load({ logger: parts.logger });
    policy.replace(checked);
    const file = new PolicyFile(parts, policy, digestOf(text));
    file.#sayInForce();
    file.#lookLater();
    return file;
  }

  /** Reads the file and applies it at once; the log has the result. Never rejects. Calls share a reading that has not begun. */
  reload(): Promise<void> {
    this.#nextReload ??= this.#afterLastLook(async () => {
      this.#nextReload = undefined;
      if (this.#isClosed) return;
      const found = await this.#read();
      this.#lastSeen = found.digest;
      await this.#judge(found);
    });
    return this.#nextReload;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelNext();
    await this.#lastLook;
  }

  #lookLater(): void {
    if (this.#isClosed) return;
    this.#cancelNext = this.#parts.clock.schedule(2_000, () => {
      void this.#afterLastLook(() => this.#look()).then(() => this.#lookLater());
    });
  }

  #afterLastLook(look: () => Promise<void>): Promise<void> {
    this.#lastLook = this.#lastLook.then(look);
    return this.#lastLook;
  }

  async #look(): Promise<void> {
    const found = await this.#read();
    const isUnchanged = found.digest === this.#lastSeen;
    this.#lastSeen = found.digest;
    if (isUnchanged && found.digest !== this.#judged) await this.#judge(found);
  }

  async #read(): Promise<PolicyFileContent> {
    try {
      const text = await readPolicies(this.#parts.path);
      return { digest: digestOf(text), text };
    } catch (error) {
      return { digest: 'none', error };
    }
  }

  async #judge({ digest, text, error }: PolicyFileContent): Promise<void> {
    this.#judged = digest;
    if (text === undefined) {
      this.#sayRefused({ error }, 'the policy file cannot be read; the policies stay as they are');
      return;
    }
    try {
      this.policy.replace(await tryPolicies({ name: this.#name, text }));
    } catch (broken) {
      const what = broken instanceof AccessSetupError ? { problems: broken.message.split('\n') } : { error: broken };
      this.#sayRefused({ sha256: digest, ...what }, 'the policy file is broken; the policies stay as they are');
      return;
    }
    this.#digestInForce = digest;
    this.#sayInForce();
  }

  #sayInForce(): void {
    this.#parts.logger.info({ policyFile: this.#name, sha256: this.#digestInForce }, 'these policies are in force');
  }

  #sayRefused(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.#parts.logger.error({ policyFile: this.#name, ...fields, sha256InForce: this.#digestInForce }, message);
  }

  get #name(): string {
    return basename(this.#parts.path);
  }
}

/** Never waits for the writer of a pipe, and refuses a file that is larger than any policies. */
async function readPolicies(path: string): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const found = await file.stat();
  if (!found.isFile()) throw new AccessSetupError(`${basename(path)} is not a file`);
  if (found.size > maxBytes) throw new AccessSetupError(`${basename(path)} has more than ${maxBytes} bytes`);
  return await file.readFile('utf8');
}

/** `sha256sum` prints the same of the file. */
const digestOf = (text: string): string => hash('sha256', text);
