/** Collects the facts for a request's audit record, which is made at its end. */
import type { IncomingMessage } from 'node:http';
import type { AccessRequest } from '../auth/policy/actions.ts';
import { resourceUid } from '../auth/policy/cedar-policy.ts';
import type { LancegateError } from '../kernel/errors.ts';
import type { Principal } from '../kernel/principal.ts';
import type { AuditFacts, AuditRecord, Decision } from '../telemetry/audit.ts';
import type { ClientAddress, ClientAddresses } from './admission/client-address.ts';

type Question = Omit<AccessRequest, 'principal'>;

export class AuditTrail {
  readonly #actions = new Set<string>();
  #question: Question | undefined;
  #isDenied = false;
  #facts: AuditFacts = {};

  /** The policy's decision on the request itself; not to be called for each object of a listing. */
  asked(question: Question, isAllowed: boolean): void {
    this.#actions.add(question.action);
    if (this.#question === undefined || !isAllowed) this.#question = question;
    if (!isAllowed) this.#isDenied = true;
  }

  note(facts: AuditFacts): void {
    this.#facts = { ...this.#facts, ...facts };
  }

  facts(refusal: LancegateError | undefined): AskedFacts {
    const actions = this.#actions.size === 0 ? undefined : [...this.#actions];
    return { decision: this.#decision(refusal), actions, ...objectOf(this.#question), ...this.#facts };
  }

  #decision(refusal: LancegateError | undefined): Decision {
    if (refusal?.kind === 'Unauthenticated') return 'unauthenticated';
    if (this.#isDenied || refusal?.kind === 'PermissionDenied') return 'denied';
    return this.#question === undefined ? 'not asked' : 'allowed';
  }
}

type AskedFacts = AuditFacts & Pick<AuditRecord, 'decision' | 'actions' | 'namespace' | 'table' | 'branch'>;

function objectOf(question: Question | undefined): Pick<AuditRecord, 'namespace' | 'table' | 'branch'> {
  if (question === undefined) return { namespace: undefined, table: undefined, branch: undefined };
  const { resource, branch = 'main' } = question;
  const { id } = resourceUid(resource);
  if (resource.kind === 'namespace') return { namespace: id, table: undefined, branch: undefined };
  return { namespace: undefined, table: id, branch };
}

/** Includes the id of a revoked or expired API key, since its secret was right. */
export function principalFacts(
  principal: Principal | undefined,
  refusal?: LancegateError,
): Pick<AuditRecord, 'subject' | 'issuer' | 'keyId'> {
  const refusedId = refusal?.internal?.keyId;
  const keyId = principal?.keyId ?? (typeof refusedId === 'string' ? refusedId : undefined);
  return { subject: principal?.subject, issuer: principal?.issuer, keyId };
}

/** To be called while the connection is open. */
export function sentFrom(
  { address, isReported }: ClientAddress,
  addresses: Pick<ClientAddresses, 'peer'>,
  { socket }: Pick<IncomingMessage, 'socket'>,
): Pick<AuditRecord, 'address' | 'proxy'> {
  return { address, proxy: isReported ? addresses.peer(socket).address : undefined };
}
