#!/usr/bin/env node
// In the oldest JavaScript, so that every Node can read it and say what is wrong. What is newer begins in start.js.
var existsSync = require('fs').existsSync;
var join = require('path').join;

// A clone has TypeScript, which Node runs as it is from 24.12 on; the package has the JavaScript that the build made of it.
var isClone = existsSync(join(__dirname, '..', 'src', 'main.ts'));
var parts = process.versions.node.split('.');
var major = Number(parts[0]);
var minor = Number(parts[1]);
var needs = isClone
  ? 'a clone of lancegate needs Node 24.12 or newer; "npm run lancegate -- ..." uses the one that npm ci has installed'
  : 'lancegate needs Node 24 or newer, or Node 22 from 22.16 on';

function isNewEnough() {
  if (major > 24) return true;
  if (major === 24) return !isClone || minor >= 12;
  return !isClone && major === 22 && minor >= 16;
}

if (!isNewEnough()) {
  console.error(needs + ': this is Node ' + process.versions.node);
  process.exit(1);
}
require('./start.js')(isClone ? '../src/main.ts' : '../dist/main.js');
