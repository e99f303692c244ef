declare const ipcFile: unique symbol;
/**
 * One complete Arrow IPC *file* in one buffer, structurally checked: the only form in which bytes may reach the engine
 * (docs/engine-facts.md, "Crashes and lies"). Only `arrow/` makes them.
 */
export type IpcFile = Buffer & { readonly [ipcFile]: true };

/** Where one message lies in a file, in bytes from its start. */
export interface Block {
  readonly offset: number;
  readonly metaLength: number;
  readonly bodyLength: number;
}
