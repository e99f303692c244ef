/**
 * What the service says of itself, to anyone: the OpenAPI document, and a page to read it and to try it with a credential of one's
 * own. All of it comes from this service and is the same for everyone, so it needs no credential.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Answer, Method, Route } from '../../endpoint/route.ts';
import { openApiDocument } from '../openapi/document.ts';

/** Anyone may read such a file. */
interface PublicFile {
  readonly methods: readonly Method[];
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  answer(): Promise<Answer>;
}

/** The files have the base path; `routes` are below it. */
export function publicFiles(routes: readonly Route[], basePath: string, version: string): readonly PublicFile[] {
  const document = JSON.stringify(openApiDocument(routes, basePath, version));
  return [
    file(`${basePath}/openapi.json`, 'application/json', async () => document),
    file(`${basePath}/docs`, 'text/html; charset=utf-8', async () => page(basePath)),
    file(`${basePath}/docs/start.js`, javascript, async () => start(basePath)),
    ...Object.entries(ofLibrary).map(([name, type]) => file(`${basePath}/docs/${name}`, type, libraryFile(name))),
  ];
}

const javascript = 'text/javascript; charset=utf-8';

const ofLibrary = { 'swagger-ui.css': 'text/css; charset=utf-8', 'swagger-ui-bundle.js': javascript } as const;

/** The page reaches this service only. The library has pictures in its style sheet, as `data:`. */
const contentPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const headers = {
  'cache-control': 'public, max-age=3600',
  'content-security-policy': contentPolicy,
  'referrer-policy': 'no-referrer',
};

/** Reads nothing before it is asked for. */
const file = (path: string, contentType: string, read: () => Promise<string | Uint8Array>): PublicFile => ({
  methods: ['GET'],
  path,
  headers,
  answer: async () => {
    const content = await read();
    return typeof content === 'string'
      ? { contentType, text: content }
      : { contentType, bytes: content, audit: () => ({}) };
  },
});

/** Reads it once, when the first client asks. */
function libraryFile(name: string): () => Promise<Uint8Array> {
  let content: Promise<Uint8Array> | undefined;
  return () => {
    content ??= readFile(libraryPath(name)).catch((error: unknown) => {
      content = undefined; // a file that cannot be opened now may be later
      throw error;
    });
    return content;
  };
}

/** The build has copied it. */
function libraryPath(name: string): string {
  const built = join(import.meta.dirname, '../../vendor', name);
  return existsSync(built) ? built : fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`));
}

const page = (basePath: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lancegate</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${basePath}/docs/swagger-ui.css">
<script src="${basePath}/docs/swagger-ui-bundle.js" defer></script>
<script src="${basePath}/docs/start.js" defer></script>
</head>
<body><div id="page"></div></body>
</html>
`;

/**
 * The validator is left out, which is on a host of the library's makers. The page says that it takes anything until a reader
 * chooses a type, and would show the bytes of an Arrow file.
 */
const start = (basePath: string): string => `SwaggerUIBundle({
  url: '${basePath}/openapi.json',
  dom_id: '#page',
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  docExpansion: 'list',
  tryItOutEnabled: true,
  requestInterceptor: (request) => {
    if (request.headers.accept === '*/*') request.headers.accept = 'application/json';
    return request;
  },
});
`;
