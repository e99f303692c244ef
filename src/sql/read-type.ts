import type { Frame } from './frame.ts';
import { SqlMistake } from './sql-mistake.ts';
import { type TokenCursor, unexpected } from './token-cursor.ts';
import type { Token } from './tokens.ts';
import { byteTypes, sqlTypes, typeParametersRule } from './types.ts';

/** Takes the type of a cast, with its parameters. `frame` is the one that holds the cast. */
export function readType(sql: TokenCursor, frame: Frame): void {
  const token = sql.take();
  if (token.kind !== 'word' || !sqlTypes.has(token.value)) {
    throw new SqlMistake(`a type should come here, one of ${[...sqlTypes].join(', ').toLowerCase()}`, token.at);
  }
  if (byteTypes.has(token.value)) frame.multipliers += 2;
  if (sql.isSign('(')) readParameters(sql, token);
  if (sql.isWord('UNSIGNED') || sql.isWord('PRECISION')) sql.take();
}

function readParameters(sql: TokenCursor, type: Token): void {
  const parameters: number[] = [];
  do {
    sql.take();
    const parameter = sql.take();
    if (parameter.kind !== 'number') throw new SqlMistake('a number should come here', parameter.at);
    parameters.push(Number(parameter.value));
  } while (sql.isSign(','));
  if (!sql.isSign(')')) throw unexpected(sql.peek());
  sql.take();
  const wrong = typeParametersRule(type.value, parameters);
  if (wrong !== undefined) throw new SqlMistake(`${type.value.toLowerCase()} ${wrong}`, type.at);
}
