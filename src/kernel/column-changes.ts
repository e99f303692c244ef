/** What an answer says of the columns that came with its rows. */
export interface ToldOfColumns {
  readonly addedColumns?: readonly { readonly name: string; readonly type: string }[];
  readonly widenedColumns?: readonly { readonly name: string; readonly type: string; readonly was: string }[];
}
