/**
 * The HTTP/1.1 server: Fastify as the router, and nothing more. It parses no body, applies no schema and renders no
 * error. HTTP/2 is left to a proxy: in Node a cancelled HTTP/2 upload looks like one that ended well.
 */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  STATUS_CODES,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { Server as NetServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { methodFinder, type Route, type RouteMethods } from '../endpoint/route.ts';
import { codeOf, invalidInput, LancegateError } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { routedTarget, splitTarget } from '../wire/identifiers.ts';
import { type Connections, checkEveryMs } from './admission/connections.ts';
import { renderError } from './error-renderer.ts';
import type { HttpDeps } from './http-deps.ts';
import { RequestPipeline } from './pipeline.ts';
import { mostHeaders, requestIdFrom } from './request-head.ts';
import { publicFiles } from './routes/documents.ts';
import { metricsRoute } from './routes/operators.ts';

export interface HttpServer {
  /** It is `http://HOST:PORT` or `https://HOST:PORT`, with the port that was really taken and without the base path. */
  readonly url: string;
  /** From now on each answer is the last of its connection, and `/readyz` says 503, so that clients go to another replica. */
  leave(): void;
  /** Accepts no connection any more. Requests on those that are open are answered. To be called between `leave` and `close`. */
  stopListening(): void;
  /** Refuses new requests, lets those under way finish for `drainMs`, then cuts them off. */
  close(drainMs: number): Promise<void>;
}

export async function startHttpServer(deps: HttpDeps): Promise<HttpServer> {
  const { host, port, maxConnections: backlog } = deps.config;
  const { app, pipeline, stopListening } = createHttpServer(deps);
  await app.listen({ host, port, backlog });
  const address = app.server.address();
  const takenPort = isObject(address) ? address.port : port;
  return {
    url: `${deps.certificate === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${takenPort}`,
    leave: () => pipeline.leave(),
    stopListening,
    close: async (drainMs) => {
      const cancel = deps.clock.schedule(drainMs, () => app.server.closeAllConnections());
      await app.close();
      cancel();
    },
  };
}

/** Makes a server that does not listen yet. */
function createHttpServer(deps: HttpDeps) {
  const routes = deps.routes.map((route) => ({ ...route, path: deps.config.basePath + route.path }));
  const pipeline = new RequestPipeline({ ...deps, routes });
  const servers: Server[] = [];
  const app = fastify({
    ...routerOptions(deps, pipeline),
    serverFactory: (route) => {
      const server = nodeServer(deps, pipeline, route);
      servers.push(server);
      return server;
    },
  });
  // Any Content-Type, or none, reaches the handler with the body untouched; `RequestBody` reads it.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  app.decorateRequest('context');
  app.addHook('onRequest', (request, reply) => {
    request.context = pipeline.open(request, reply);
    return pipeline.prepare(request.context, request.routeOptions.config.route);
  });
  app.addHook('preClose', async () => pipeline.stop());
  addHealthRoutes(app, pipeline, deps);
  const outermost = metricsRoute(deps.metrics);
  for (const route of [outermost, ...routes]) addRoute(app, route);
  const files = publicFiles(deps.routes, deps.config.basePath, deps.version);
  // As the health checks, without a credential.
  for (const file of files)
    app.get(file.path, async ({ context }) => {
      for (const [name, value] of Object.entries(file.headers)) context.setHeader(name, value);
      return context.send(await file.answer());
    });
  refuseUnrouted(app, [...healthRoutes, outermost, ...files, ...routes]);
  const stopListening = (): void => {
    // Node's own method would close the idle connections too, on which a request may be on its way.
    for (const server of servers) NetServer.prototype.close.call(server);
  };
  return { app, pipeline, stopListening };
}

function routerOptions({ newId }: HttpDeps, pipeline: RequestPipeline) {
  return {
    logger: false,
    return503OnClosing: false, // the pipeline refuses, in the same words as ever
    exposeHeadRoutes: true, // RFC 9110, 9.1: HEAD is there where GET is
    // The routes decide how long an identifier may be; here only a header's size is the limit.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16 * 1024 },
    genReqId: (raw: IncomingMessage) => requestIdFrom(raw) ?? newId(),
    rewriteUrl: (raw: IncomingMessage) => routedTarget(raw.url ?? '/'),
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      pipeline.open(request, reply).refuse(error);
    },
    clientErrorHandler: () => undefined, // every server has `refuseBrokenHttp`, the ones Fastify makes for `localhost` too
  } as const;
}

/** `localhost` has two addresses, and each gets a server: so all that a server needs is done here. */
function nodeServer(deps: HttpDeps, pipeline: RequestPipeline, route: RequestListener): Server {
  const { config } = deps;
  const options = {
    // The request line and the headers may have so much: SDKs send the conditions of a merge in the URL. Clients may send 80 KiB; the
    // rest is for what proxies and other replicas add. `Connections` bounds what all heads together hold.
    maxHeaderSize: 88 * 1024,
    requireHostHeader: false, // Node would answer with nothing at all; `requireHost` says why
    headersTimeout: config.requestHeaderTimeoutMs,
    connectionsCheckingInterval: Math.min(checkEveryMs, config.requestHeaderTimeoutMs), // for late headers; 30 s by default
    // The request's own deadline ends an upload first, with an answer; this one, Node's, only hangs up.
    requestTimeout: Math.max(config.maxTimeoutMs, config.requestHeaderTimeoutMs) + 60_000,
    keepAliveTimeout: config.keepAliveTimeoutMs,
  };
  const { connections } = pipeline;
  const server =
    deps.certificate === undefined
      ? createServer(options)
      : tlsServer(deps.certificate, { ...options, handshakeTimeout: deps.config.requestHeaderTimeoutMs }, connections);
  const receive: RequestListener = (raw, response) => pipeline.receive(raw, response, () => route(raw, response));
  server.maxHeadersCount = mostHeaders;
  server.on('connection', (socket: Socket) => connections.open(socket));
  server.on('request', receive);
  // Node would answer `100 Continue` by itself, before the request is admitted. Other expectations are ignored.
  server.on('checkContinue', receive);
  server.on('checkExpectation', receive);
  server.on('clientError', (error: ParserError, socket) => refuseBrokenHttp(connections, error, socket));
  server.on('connect', (_, socket) => {
    socket.on('error', () => undefined); // the HTTP server no longer handles errors of this socket
    connections.dismiss(socket, lastAnswer(invalidInput('CONNECT: this service is no proxy')));
  });
  return server;
}

/** A connection counts from its first byte on, and its handshake has as long as the head of a request. */
function tlsServer(
  certificate: NonNullable<HttpDeps['certificate']>,
  options: ServerOptions & { readonly handshakeTimeout: number },
  connections: Connections,
): Server {
  const server = createTlsServer({ ...options, ...certificate.options });
  certificate.onChange((changed) => server.setSecureContext(changed));
  server.on('secureConnection', (socket) => connections.secured(socket));
  server.on('tlsClientError', (error, socket) => connections.failedHandshake(socket, error));
  return server;
}

function addRoute(app: FastifyInstance, route: Route): void {
  app.route({
    method: [...route.methods],
    url: route.path,
    config: { route },
    handler: async ({ context }) => context.send(await context.handler()),
  });
}

/**
 * A request with the right path and the wrong method gets the right methods (RFC 9110, 15.5.6). It needs no credential, as with
 * an unknown path: the specification lists the routes, and the answer says nothing of what is stored.
 */
function refuseUnrouted(app: FastifyInstance, routes: readonly RouteMethods[]): void {
  const methodsOf = methodFinder(routes);
  const refuse = ({ context, method, url }: FastifyRequest): FastifyReply => {
    const allowed = methodsOf(splitTarget(url).path).join(', ');
    if (allowed === '') return context.refuse(new LancegateError('NoSuchRoute', `no such route for ${method}`));
    context.setHeader('allow', allowed);
    return context.refuse(new LancegateError('MethodNotAllowed', `the path has no ${method}, only ${allowed}`));
  };
  app.setNotFoundHandler(refuse);
  // Fastify refuses a QUERY request without a Content-Type before it looks for a route, and there is none for it.
  app.setErrorHandler((error, request) =>
    codeOf(error) === 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE' ? refuse(request) : request.context.refuse(error),
  );
}

const healthRoutes = [
  { methods: ['GET'], path: '/healthz' },
  { methods: ['GET'], path: '/readyz' },
] as const;

/** Probes have no credentials, and learn one word, how many branches an operator has to look at, how far back undo reaches if not as far as it should, and what runs here. */
function addHealthRoutes(app: FastifyInstance, pipeline: RequestPipeline, deps: HttpDeps): void {
  const { requireReady, branchesBehind, undoReachMs, version } = deps;
  const answer = (said: Readonly<Record<string, string>>) => {
    const behind = branchesBehind();
    const reachMs = undoReachMs();
    const health = {
      ...said,
      ...(behind > 0 && { branches_behind: behind }),
      ...(reachMs !== undefined && { undo_reach_seconds: Math.floor(reachMs / 1_000) }),
    };
    return { contentType: 'application/json', text: JSON.stringify(health) };
  };
  const options = { config: { isProbe: true } };
  app.get('/healthz', options, ({ context }) => context.send(answer({ status: 'alive', version })));
  app.get('/readyz', options, async ({ context }) => {
    if (pipeline.isLeaving) return context.refuse(new LancegateError('SlowDown', 'the service is stopping'));
    await requireReady();
    return context.send(answer({ status: 'ready' }));
  });
}

/** `reason` is one of a few dozen fixed texts of Node's parser; it holds nothing of the request. */
interface ParserError extends NodeJS.ErrnoException {
  readonly reason?: string;
}

/** What Node's parser refuses. */
function refusalOf(error: ParserError): LancegateError {
  if (error.code === 'HPE_HEADER_OVERFLOW')
    return new LancegateError(
      'HeadTooLarge',
      'the request line and the headers can have 80 KiB together; a merge can send its conditions in the body, as docs/protocol.md says',
      { cause: error },
    );
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return invalidInput('the request did not arrive in time', error);
  return invalidInput(['the request is not valid HTTP/1.1', error.reason].filter((text) => text).join(': '), error);
}

/** There is no request to answer; a client that still reads gets the usual body. */
function refuseBrokenHttp(connections: Connections, error: ParserError, socket: Duplex): void {
  if (error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  connections.dismiss(socket, lastAnswer(refusalOf(error)));
}

/** The bytes of an answer that ends its connection. */
function lastAnswer(refusal: LancegateError): string {
  const { status, body } = renderError(refusal, { requestId: '', instance: '', isLanceDb: false, isCreate: false });
  const text = JSON.stringify(body);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    'x-content-type-options: nosniff',
    'connection: close',
  ];
  return [...head, `content-length: ${Buffer.byteLength(text)}`, '', text].join('\r\n');
}
