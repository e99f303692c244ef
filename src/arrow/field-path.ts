/** Segments from the top-level column inwards; at least one, none empty. */
export interface FieldPath {
  readonly segments: readonly string[];
}
