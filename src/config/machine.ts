/** What the machine, or the container, lets one process have. */
export interface Machine {
  readonly memoryBytes: number;
  /** At the same time, connections among them; Infinity where nothing is said. */
  readonly openFiles: number;
}
