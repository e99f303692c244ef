/** What an API key looks like: `lgk_`, an id that may be shown, and a secret of 256 bits that is shown once. */
import { hash, randomBytes } from 'node:crypto';

const prefix = 'lgk_';
const form = /^lgk_([0-9a-f]{16})_([0-9a-f]{64})$/;

export interface ApiKeyParts {
  readonly id: string;
  readonly secret: string;
}

export const newApiKey = (): ApiKeyParts => ({
  id: randomBytes(8).toString('hex'),
  secret: randomBytes(32).toString('hex'),
});

export const showApiKey = ({ id, secret }: ApiKeyParts): string => `${prefix}${id}_${secret}`;

export const looksLikeApiKey = (credential: string): boolean => credential.startsWith(prefix);

export function parseApiKey(credential: string): ApiKeyParts | undefined {
  const [, id, secret] = form.exec(credential) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** One plain SHA-256 is enough: 256 random bits cannot be guessed, and every request pays for it. */
export const hashSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer');
