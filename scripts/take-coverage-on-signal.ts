/** Preloaded into the service by `files-on-a-path.ts`: each SIGUSR2 writes which functions ran since the last one. */
import { takeCoverage } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) process.on('SIGUSR2', takeCoverage);
