/** Commands ask a running service over HTTP: the one of a data folder of this machine, or the one of a URL. */
import { OwnIssuer } from '../../auth/tokens/own-issuer.ts';
import { dataFolderAt } from '../../config/data-folder.ts';
import { type OptionValues, optional } from '../../config/options.ts';
import type { Config } from '../../config/settings.ts';
import { httpUrl, path, secret } from '../../config/value-types.ts';
import { codeOf, errorCatalogue } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { type CliContext, CliError, fileFault } from '../command.ts';
import { credentialSettings } from '../command-line.ts';
import { type RunningService, requireOwnIssuer, runningService } from './running-service.ts';

export const serviceOptions = {
  url: optional(httpUrl, {
    flag: 'url',
    doc: 'Where the service is, base path included. Also `LANCEGATE_URL`. Without it, the service that runs on the data folder.',
  }),
  key: optional(secret, {
    flag: 'key',
    doc: 'API key or access token. Better in `LANCEGATE_KEY` or a file: other users of the machine can see a flag. Without any, the command mints a token of the own issuer of the data folder, for a service of this machine.',
  }),
  credentialFile: optional(path, { flag: 'credential-file', doc: 'File with an API key or access token.' }),
};

export const serviceSettings = [...credentialSettings, 'basePath'] as const;

/** The codes of errors lead to them. */
const nextSteps: Readonly<Record<number, string>> = {
  [errorCatalogue.NamespaceNotFound.code]: '; `lancegate tables` lists what is there',
  [errorCatalogue.TableNotFound.code]: '; `lancegate tables` lists what is there',
  [errorCatalogue.TableColumnNotFound.code]: '; `lancegate show TABLE` has its columns',
  [errorCatalogue.TableTagNotFound.code]: '; `lancegate show TABLE` has its tags',
  [errorCatalogue.TableVersionNotFound.code]: '; `lancegate versions TABLE` lists those that are there',
  [errorCatalogue.Unauthenticated.code]:
    '; --key, LANCEGATE_KEY or --credential-file gives another credential, and `lancegate key create` makes one',
};

interface AskedOfService {
  readonly method?: 'GET' | 'POST';
  /** The route is not below the base path. */
  readonly isAtRoot?: boolean;
  /** It is sent as JSON. */
  readonly body?: object;
  readonly content?: ContentToSend;
  readonly accept?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The bytes are no JSON. A stream is sent as it comes. */
interface ContentToSend {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer> | AsyncIterable<Uint8Array>;
}

/** A service answered, and not by 2xx. */
export class ServiceRefusal extends CliError {
  readonly status: number;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, { status, headers }: Response) {
    super(message);
    this.status = status;
    const seconds = Number(headers.get('retry-after') ?? Number.NaN);
    this.retryAfterMs = Number.isFinite(seconds) ? 1_000 * seconds : undefined;
  }
}

/** No answer came: whether the service has done what it was asked is not known. */
export class ServiceSilent extends CliError {}

export class ServiceClient {
  /** It has the base path. */
  readonly url: string;
  readonly #credential: () => Promise<string>;

  constructor(url: string, credential: () => Promise<string>) {
    this.url = url;
    this.#credential = credential;
  }

  /** Throws `ServiceRefusal` or `ServiceSilent` for whatever is no answer of 2xx, in a sentence. */
  async ask(route: string, asked: AskedOfService = {}): Promise<Response> {
    const { method = 'POST', accept = 'application/json', headers = {}, isAtRoot = false } = asked;
    const base = isAtRoot ? new URL(this.url).origin : this.url;
    const authorization = `Bearer ${await this.#credential()}`;
    const { about, body } = bodyOf(asked);
    const given = { ...headers, authorization, accept, ...about };
    // The type of `fetch` does not know that a stream of bytes can be a body (undici's documentation).
    const request = { method, headers: given, duplex: 'half', ...(body !== undefined && { body }) } as RequestInit;
    const response = await fetch(`${base}${route}`, request).catch((cause: unknown) => {
      throw this.#notReached(cause);
    });
    if (!response.ok) throw await this.#refusal(response);
    return response;
  }

  async json<Answer>(route: string, asked?: AskedOfService): Promise<Answer> {
    const response = await this.ask(route, asked);
    const text = await response.text().catch((cause: unknown) => {
      throw new ServiceSilent(`the answer of ${this.url} broke off: ${reasonOf(cause)}`, { cause });
    });
    try {
      return JSON.parse(text) as Answer;
    } catch {
      throw this.#isNoService(response);
    }
  }

  async #refusal(response: Response): Promise<ServiceRefusal> {
    const body: unknown = await response.json().catch(() => undefined);
    const { error, code } = isObject(body) ? body : {};
    const isRefusal = typeof error === 'string' && typeof code === 'number';
    // The routes of the commands are there in every service, below its base path.
    const { NoSuchRoute } = errorCatalogue;
    const isNoRoute = response.status === NoSuchRoute.status && code === NoSuchRoute.code;
    if (!isRefusal || isNoRoute) return this.#isNoService(response);
    const next = nextSteps[code] ?? '';
    const request = response.headers.get('x-request-id');
    return new ServiceRefusal(`${error.replace(/\.$/, '')}${next} (${response.status}, request ${request})`, response);
  }

  /** `ServiceSilent` only where to wait may help. What `fetch` says of TLS names lines of C. */
  #notReached(cause: unknown): CliError {
    if (codeOf(causeOf(cause)) === 'ERR_SSL_WRONG_VERSION_NUMBER')
      return new CliError(`what answers at ${this.url} speaks no TLS; is it http:// in place of https://?`, { cause });
    if (causeOf(cause).message === 'bad port')
      return new CliError(
        `the port of ${this.url} is one that fetch, and every browser, refuses (https://fetch.spec.whatwg.org/#port-blocking); ` +
          'start the service with another --port',
        { cause },
      );
    return new ServiceSilent(`no service answers at ${this.url}: ${reasonOf(cause)}`, { cause });
  }

  #isNoService(response: Response): ServiceRefusal {
    const what = `what answers at ${this.url} is no lancegate service, or has another base path`;
    return new ServiceRefusal(`${what} (status ${response.status})`, response);
  }
}

function bodyOf({ body, content }: AskedOfService) {
  if (content === undefined)
    return body === undefined ? {} : { about: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const about = { 'content-type': content.type };
  if (!(content.bytes instanceof Uint8Array)) return { about, body: content.bytes };
  return { about: { ...about, 'content-length': String(content.bytes.length) }, body: piecesOf(content.bytes) };
}

const pieceBytes = 256 << 10;

/** `fetch` would copy the whole, and leave the copy to the collector. */
async function* piecesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

type ServiceGiven = OptionValues<typeof serviceOptions>;

/** Throws `CliError` where there is no service, or no credential for it. */
export function serviceClient(given: ServiceGiven, config: Config, context: CliContext): ServiceClient {
  const running = runningService(dataFolderAt(config.dataFolder), context);
  const url = given.url?.replace(/\/+$/, '') ?? `${announcedUrl(running, config)}${config.basePath}`;
  return new ServiceClient(url, credentialOf(given, running, config, context));
}

function announcedUrl(running: RunningService | undefined, { dataFolder }: Config): string {
  if (running !== undefined) return running.url;
  throw new CliError(
    `no service runs on the data folder ${dataFolder}: start it with \`lancegate serve\`, or name another folder with --data ` +
      'or a service with --url',
  );
}

/** A token of the data folder opens its service, so no other one gets to see it. */
function isOfThisMachine(url: string | undefined, running: RunningService | undefined): boolean {
  if (url === undefined) return true;
  const { hostname, origin } = new URL(url);
  return ['localhost', '127.0.0.1', '[::1]'].includes(hostname) || origin === running?.url;
}

function credentialOf(
  { url, key, credentialFile }: ServiceGiven,
  running: RunningService | undefined,
  config: Config,
  context: CliContext,
): () => Promise<string> {
  if (key !== undefined) return async () => key;
  if (credentialFile !== undefined) {
    const read = credentialIn(credentialFile, context);
    return async () => read;
  }
  const hasIssuer =
    config.catalogUrl !== undefined ||
    (isOfThisMachine(url, running) && context.fileExists(dataFolderAt(config.dataFolder).catalogFile));
  if (!hasIssuer)
    throw new CliError('the service needs a credential: --key, LANCEGATE_KEY or --credential-file gives it');
  requireOwnIssuer(config, running);
  return () => ownToken(config, context);
}

function credentialIn(file: string, { readFile }: CliContext): string {
  try {
    return readFile(file).toString('utf8').trim();
  } catch (error) {
    throw fileFault(`${file} cannot be read`, error);
  }
}

async function ownToken(config: Config, { clock, openCredentials }: CliContext): Promise<string> {
  await using credentials = await openCredentials(config);
  const issuer = await OwnIssuer.open(credentials.issuerKeys, clock);
  // It is valid for longer than any one request, and each request has a token of its own.
  return await issuer.mint({ subject: 'lancegate command', scopes: ['lancegate:admin'], expiresAfterMs: 60_000 });
}

/** The codes of errors lead to them. */
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ENOTFOUND: 'no machine has this name',
};

/** `fetch` says "fetch failed", and has the reason as a cause. */
function reasonOf(error: unknown): string {
  const code = String(codeOf(causeOf(error)));
  return reasons[code] ?? (causeOf(error).message || code);
}

/** `fetch` has one sentence for all failures, and the reason as its cause. */
function causeOf(error: unknown): Error {
  const cause = (error instanceof Error ? error.cause : undefined) ?? error;
  return cause instanceof Error ? cause : new CliError(String(cause));
}
