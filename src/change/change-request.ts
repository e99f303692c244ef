import type { IpcFile } from '../arrow/format/ipc-file.ts';
import type { ChangeStep } from '../engine/port/change.ts';
import type { WriteRequest } from '../write/write.ts';

/** A step with the file that it may need. */
export interface FiledStep {
  readonly step: ChangeStep;
  readonly file: IpcFile | undefined;
}

/** A write that the engine computes in a shadow, one step after the other: all of them are in one version, or none is. */
export interface ChangeRequest extends WriteRequest {
  readonly kind: 'change';
  /** At least one. */
  readonly steps: readonly FiledStep[];
}
