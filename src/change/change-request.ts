import type { IpcFile } from '../arrow/format/ipc-file.ts';
import type { ChangeStep, ManifestChange } from '../engine/port/change.ts';
import type { WriteRequest } from '../write/write.ts';

/** A step with the file that it may need. */
export interface FiledStep {
  readonly step: ChangeStep;
  readonly file: IpcFile | undefined;
}

/** What the engine computes in a shadow, one step after the other: all of them are in one version, or none is. */
interface Steps {
  /** At least one. */
  readonly steps: readonly FiledStep[];
  readonly manifest?: undefined;
}

/** A change that needs no engine. */
interface ManifestAlone {
  readonly manifest: ManifestChange;
  readonly steps?: undefined;
}

export type ChangeOfBranch = Steps | ManifestAlone;

export type ChangeRequest = ChangeOfBranch & WriteRequest & { readonly kind: 'change' };
