/**
 * The HTTP/1.1 server: Fastify as the router, and nothing more. It parses no body, applies no schema and renders no
 * error. HTTP/2 is left to a proxy: in Node a cancelled HTTP/2 upload looks like one that ended well.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { routedTarget, splitTarget } from '../wire/request-path.ts';
import { Admission } from './admission/admission.ts';
import { ClientAddresses } from './admission/client-address.ts';
import { Connections } from './admission/connections.ts';
import { Doorkeeper } from './admission/doorkeeper.ts';
import { canShare, listenMore, requireFree } from './admission/listeners.ts';
import { renderError } from './errors/error-renderer.ts';
import { Exchange, type ExchangeParts } from './exchange.ts';
import type { HttpParts } from './http-parts.ts';
import { methodFinder, type RouteMethods } from './path-pattern.ts';
import { type Proceed, Reception } from './reception.ts';
import { requestIdFrom } from './request-id.ts';
import type { Route } from './route.ts';
import { metricsRoute } from './routes/metrics.ts';

export interface HttpServer {
  /** `http://HOST:PORT`, with the port that was really taken and without the base path. */
  readonly url: string;
  /** Refuses new requests, lets those under way finish for `drainMs`, then cuts them off. */
  close(drainMs: number): Promise<void>;
}

/** The routes decide how long an identifier may be; here only a header's size is the limit. */
const maxParamLength = 16 * 1024;

/** Short headers take ten times their size in memory, for as long as the rest of them does not arrive (P12). */
const mostHeaders = 200;

/** Node checks for late headers periodically, by default every 30 s. */
const checkHeadersEveryMs = 500;

/** The request's own deadline ends an upload first, with an answer; this one, Node's, only hangs up. */
const hangUpAfterDeadlineMs = 60_000;

export async function startHttpServer(parts: HttpParts): Promise<HttpServer> {
  const { host, port, maxConnections: backlog } = parts.config;
  const app = createHttpServer(parts);
  const reusePort = canShare(host);
  if (reusePort) await requireFree({ host, port });
  await app.listen({ host, port, backlog, ...{ reusePort } }); // Fastify hands it on to Node, and has no type for it
  const { port: takenPort } = app.server.address() as AddressInfo;
  const stopMore = reusePort ? await listenMoreFor(app, backlog) : async () => undefined;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${takenPort}`,
    close: async (drainMs) => {
      const cancel = parts.clock.schedule(drainMs, () => app.server.closeAllConnections());
      await Promise.all([app.close(), stopMore()]);
      cancel();
    },
  };
}

async function listenMoreFor(app: FastifyInstance, backlog: number): Promise<() => Promise<void>> {
  try {
    return await listenMore(app.server, backlog);
  } catch (error) {
    await app.close();
    throw error;
  }
}

/** Not listening yet. */
export function createHttpServer(parts: HttpParts): FastifyInstance {
  const routes = parts.routes.map((route) => ({
    ...route,
    path: parts.config.basePath + route.path,
  }));
  const admission = new Admission(parts.config, parts.memory);
  const writePaths = routes.filter(({ isWrite }) => isWrite).map(({ path }) => path);
  const clientAddresses = new ClientAddresses(parts.config.trustedProxies ?? []);
  const doorkeeper = new Doorkeeper({ ...parts, clientAddresses }, admission, writePaths);
  const reception = new Reception(parts, admission, doorkeeper);
  const connections = new Connections({ ...parts, clientAddresses });
  parts.metrics.watchConnections(() => connections.count);
  const waiting = new WeakSet<IncomingMessage>();
  const exchangeParts: ExchangeParts = {
    ...parts,
    isStopping: () => reception.isStopping,
    isProbe: (route) => healthRoutes.some(({ path }) => path === route),
    clientAddresses,
    continueUpload: ({ raw }, reply) => {
      if (waiting.delete(raw)) reply.raw.writeContinue();
    },
  };
  const receive: Doorkeeper['receive'] = (raw, response, letIn) =>
    reception.isStopping ? letIn() : doorkeeper.receive(raw, response, letIn);
  const app = fastify({
    ...routerOptions(parts, exchangeParts),
    serverFactory: (letIn) => nodeServer(parts, { connections, receive, letIn, waiting }),
  });
  leaveBodiesAlone(app);
  openExchanges(app, exchangeParts, connections);
  app.addHook('preClose', async () => {
    reception.stop();
    connections.stop();
  });
  app.setErrorHandler((error, request) => exchangeOf(request).refuse(error));
  addHealthRoutes(app, reception);
  const outermost = metricsRoute(parts.metrics);
  for (const route of [outermost, ...routes]) addRoute(app, reception, route);
  refuseUnrouted(app, [...healthRoutes, outermost, ...routes]);
  return app;
}

function routerOptions({ newId }: HttpParts, exchangeParts: ExchangeParts) {
  return {
    logger: false,
    return503OnClosing: false, // the reception refuses, in the same words as ever
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength },
    genReqId: (raw: IncomingMessage) => requestIdFrom(raw.headers['x-request-id']) ?? newId(),
    rewriteUrl: (raw: IncomingMessage) => routedTarget(raw.url ?? '/'),
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      new Exchange(exchangeParts, request, reply).refuse(error);
    },
    clientErrorHandler: () => undefined, // every server has `refuseBrokenHttp`, the ones Fastify makes for `localhost` too
  } as const;
}

interface Entrance {
  readonly connections: Connections;
  readonly receive: Doorkeeper['receive'];
  readonly letIn: (raw: IncomingMessage, response: ServerResponse) => void;
  /** Whose clients wait for `100 Continue`. */
  readonly waiting: WeakSet<IncomingMessage>;
}

/** `localhost` has two addresses, and each gets a server: so all that a server needs is done here. */
function nodeServer({ config }: HttpParts, { connections, receive, letIn, waiting }: Entrance): Server {
  const server = createServer({
    requireHostHeader: false, // Node would answer with nothing at all; `requireHost` says why
    headersTimeout: config.requestHeaderTimeoutMs,
    connectionsCheckingInterval: Math.min(checkHeadersEveryMs, config.requestHeaderTimeoutMs),
    requestTimeout: Math.max(config.maxTimeoutMs, config.requestHeaderTimeoutMs) + hangUpAfterDeadlineMs,
    keepAliveTimeout: config.keepAliveTimeoutMs,
  });
  server.maxHeadersCount = mostHeaders;
  server.on('connection', (socket: Socket) => connections.open(socket));
  server.on('request', (raw, response) =>
    connections.receive(raw, response, () => receive(raw, response, () => letIn(raw, response))),
  );
  const letInDirectly = (raw: IncomingMessage, response: ServerResponse): void =>
    connections.receive(raw, response, () => letIn(raw, response));
  // Node would answer `100 Continue` by itself, before anybody is known to be welcome. Other expectations are ignored.
  server.on('checkContinue', (raw: IncomingMessage, response: ServerResponse) => {
    waiting.add(raw);
    letInDirectly(raw, response);
  });
  server.on('checkExpectation', letInDirectly);
  server.on('clientError', (error: ParserError, socket) => refuseBrokenHttp(connections, error, socket));
  server.on('connect', (_, socket) => {
    socket.on('error', () => undefined); // the HTTP server no longer handles errors of this socket
    refuseLast(connections, socket, invalidInput('CONNECT: this service is no proxy'));
  });
  return server;
}

/** Any Content-Type, or none, reaches the handler with the body untouched; `RequestBody` reads it. */
function leaveBodiesAlone(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
}

/** One hook for all of this, because each hook adds promises to every request. */
function openExchanges(app: FastifyInstance, parts: ExchangeParts, connections: Connections): void {
  app.decorateRequest('exchange');
  app.addHook('onRequest', async (request, reply) => {
    const exchange = new Exchange(parts, request, reply);
    request.setDecorator('exchange', exchange);
    requireFewHeaders(request.raw);
    requireHost(request.raw);
    const { clientAddress } = exchange;
    if (clientAddress.isReported) exchange.atEnd(connections.enter(clientAddress));
  });
}

/** Node has left out those behind the last one, of which any may matter. */
function requireFewHeaders({ rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length >= 2 * mostHeaders) throw invalidInput(`there are ${mostHeaders} headers or more`);
}

/** A name or an address, and a port (RFC 9110, 7.2, without the percent-encoding that no host has). */
const hostForm = /^(?:\[[\da-f:.]+\]|[\w.~!$&'()*+,;=-]*)(?::\d*)?$/i;

/** RFC 9112, 3.2: exactly one, and a valid one. HTTP/1.0 may leave it out. */
function requireHost({ httpVersion, headers, rawHeaders }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'host') hosts += 1;
  if (hosts === 0 && httpVersion === '1.1') throw invalidInput('the Host header is missing');
  if (hosts > 1) throw invalidInput('there is more than one Host header');
  if (!hostForm.test(headers.host ?? '')) throw invalidInput('the Host header is not a host and a port');
}

const exchangeOf = (request: FastifyRequest): Exchange => request.getDecorator<Exchange>('exchange');

function addRoute(app: FastifyInstance, reception: Reception, route: Route): void {
  const proceedings = new WeakMap<FastifyRequest, Proceed>();
  app.route({
    method: [...route.methods],
    url: route.path,
    onRequest: async (request) => {
      proceedings.set(request, await reception.admit(route, exchangeOf(request)));
    },
    handler: async (request) => exchangeOf(request).answer(await proceedings.get(request)!()),
  });
}

/**
 * Whoever has the right path and the wrong method hears the right one (RFC 9110, 15.5.6). Without a credential, as of an
 * unknown path: which routes there are is in the specification, and nothing is said of what is stored.
 */
function refuseUnrouted(app: FastifyInstance, routes: readonly RouteMethods[]): void {
  const methodsOf = methodFinder(routes);
  app.setNotFoundHandler((request) => {
    const { method } = request;
    const exchange = exchangeOf(request);
    const allowed = methodsOf(splitTarget(request.url).path).join(', ');
    if (allowed === '') return exchange.refuse(new LancegateError('NoSuchRoute', `no such route for ${method}`));
    exchange.setHeader('allow', allowed);
    return exchange.refuse(new LancegateError('MethodNotAllowed', `the path has no ${method}, only ${allowed}`));
  });
}

const healthRoutes = [
  { methods: ['GET'], path: '/healthz' },
  { methods: ['GET'], path: '/readyz' },
] as const;

/** For probes, which have no credentials: they learn one word. */
function addHealthRoutes(app: FastifyInstance, reception: Reception): void {
  const word = (text: string) => ({ contentType: 'application/json', text: JSON.stringify({ status: text }) });
  app.get('/healthz', (request) => exchangeOf(request).answer(word('alive')));
  app.get('/readyz', (request) => {
    if (reception.isStopping)
      return exchangeOf(request).refuse(new LancegateError('SlowDown', 'the service is stopping'));
    return exchangeOf(request).answer(word('ready'));
  });
}

/** `reason` is one of a few dozen fixed texts of Node's parser; it holds nothing of the request. */
interface ParserError extends NodeJS.ErrnoException {
  readonly reason?: string;
}

/** What Node's parser refuses, by its code. */
const brokenHttpTexts: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: 'the request line and headers are too large',
  ERR_HTTP_REQUEST_TIMEOUT: 'the request did not arrive in time',
};

/** There is no request to answer; whoever still listens gets the same body as ever. */
function refuseBrokenHttp(connections: Connections, error: ParserError, socket: Duplex): void {
  if (error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const notHttp = ['the request is not valid HTTP/1.1', error.reason].filter((text) => text).join(': ');
  refuseLast(connections, socket, invalidInput(brokenHttpTexts[error.code ?? ''] ?? notHttp, error));
}

function refuseLast(connections: Connections, socket: Duplex, refusal: LancegateError): void {
  if (connections.canAnswer(socket)) connections.dismiss(socket, lastAnswer(refusal));
  else socket.destroy();
}

/** The bytes of an answer that ends its connection. */
function lastAnswer(refusal: LancegateError): string {
  const { body } = renderError(refusal, { requestId: '', instance: '', isLanceDbCreate: false });
  const text = JSON.stringify(body);
  const head = ['HTTP/1.1 400 Bad Request', 'content-type: application/json', 'connection: close'];
  return [...head, `content-length: ${Buffer.byteLength(text)}`, '', text].join('\r\n');
}
