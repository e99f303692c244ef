import { runSuite } from './suites.ts';

await runSuite(import.meta.filename);
