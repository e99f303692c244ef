#!/usr/bin/env node
// Plain JavaScript of any age: an older Node cannot even read src/main.ts, and would say so in a puzzling way.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 24 || (major === 24 && minor < 12)) {
  console.error(`lancegate needs Node 24.12 or newer, and this is ${process.version}.`);
  console.error('In its own folder, "npm run lancegate -- …" runs it with the Node that it brings along.');
  process.exit(1);
}
await import('../src/main.ts');
