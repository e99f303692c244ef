/** Node joins repeated headers of most names, or drops all but the first; the type does not say so. */
export const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(', ') : value;
