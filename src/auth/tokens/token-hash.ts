import { hash } from 'node:crypto';

/** What a token is remembered by, so that no cache, dump or log of ours ever holds one. */
export const hashToken = (token: string): string => hash('sha256', token, 'base64');
