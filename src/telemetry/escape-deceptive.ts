/**
 * JSON escapes the controls below a space only. These may end a line for other programs, or change what a person sees: more
 * controls, separators of lines, marks of direction, and characters without width.
 */
const deceptive = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** As JSON escapes, so the text of a JSON value stays the same. Line feeds stay. */
export const escapeDeceptive = (text: string): string => text.replace(deceptive, escaped);
