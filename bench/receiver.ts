/** A server that receives bodies and drops them: what the network alone costs. Prints its address */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const server = createServer({ requestTimeout: 0 }, (request, response) => {
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  request.on('end', () => response.end(JSON.stringify({ bytes })));
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`listening on http://127.0.0.1:${port}\n`);
});
