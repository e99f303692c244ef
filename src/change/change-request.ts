import type { IpcFile } from '../arrow/format/ipc-file.ts';
import type { ChangeStep, ManifestChange } from '../engine/port/change.ts';
import type { ChangeLimits } from '../engine/port/change-limits.ts';
import type { Shadow } from '../engine/port/shadow.ts';
import type { AnsweredTotals } from '../idempotency/noted-outcomes.ts';
import type { WriteRequest } from '../write/write.ts';

/** A step with the file that it may need. */
export interface StepWithFile {
  readonly step: ChangeStep;
  readonly file?: IpcFile;
}

/** What a step did. */
export interface StepTotals extends AnsweredTotals {
  /** See `Committed.surplusRows`. */
  readonly surplusRows?: number;
}

/** A step that depends on what those before it leave, such as columns. */
export interface ComputedStep {
  /** What it does shows in its totals. */
  readonly changesRowsOnly: boolean;
  /** Throws what refuses it. */
  run(shadow: Shadow, limits: ChangeLimits): Promise<StepTotals>;
}

/** What the engine computes in a shadow, one step after the other: all of them are in one version, or none is. */
interface Steps {
  /** There is at least one; several need a shadow that is private. */
  readonly steps: readonly (StepWithFile | ComputedStep)[];
  /** Whether the state before stays as history; undefined where that is for the steps to say. */
  readonly takesAway?: boolean;
  readonly manifest?: undefined;
}

/** A change that needs no engine. */
interface ManifestAlone {
  readonly manifest: ManifestChange;
  readonly steps?: undefined;
  readonly takesAway?: undefined;
}

export type ChangeOfBranch = Steps | ManifestAlone;

export type ChangeRequest = ChangeOfBranch & WriteRequest & { readonly kind: 'change' };
