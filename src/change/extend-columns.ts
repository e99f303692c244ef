/**
 * Gives a branch the columns that a source has and it lacks, and types with more room, in the shadow into which the rows go: so both
 * are one version. docs/protocol.md ("Sources with more columns") has the rules.
 */
import type { IpcFile } from '../arrow/format/ipc-file.ts';
import { fileOfColumns } from '../arrow/schema/added-fields.ts';
import { extensionOf, type SchemaExtension, type WidenedColumn } from '../arrow/schema/extended-schema.ts';
import { formatFieldPath, parseFieldPath, quoteSegment, refuseColumn } from '../arrow/schema/field-path.ts';
import { isNull } from '../arrow/schema/fitted-schema.ts';
import { dataTypeJson } from '../arrow/schema/lance-json.ts';
import { type Field, type IpcChunk, typeName } from '../arrow/schema/schema.ts';
import type { ChangeStep } from '../engine/port/change.ts';
import type { ChangeLimits } from '../engine/port/change-limits.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
import type { IndexDescription } from '../engine/port/indexes.ts';
import type { Shadow } from '../engine/port/shadow.ts';
import { ownSql } from '../kernel/checked-sql.ts';
import type { ToldOfColumns } from '../kernel/column-changes.ts';
import { LancegateError } from '../kernel/errors.ts';

/** What of a schema a principal must have the right to do before it is done. */
export type ExtendingAction = 'AlterTableAddColumns' | 'AlterTableAlterColumns';

/** The principal who sends a source that may extend the table, and what it knows of the branch. */
export interface Extender {
  /** `PermissionDenied`. */
  readonly requireAction: (action: ExtendingAction) => void;
  /** Those of the head: the type of a column with an index stays. */
  indexes(): Promise<readonly IndexDescription[]>;
}

const toldOfColumns = ({ added, widened }: SchemaExtension): ToldOfColumns => ({
  ...(added.length > 0 && { addedColumns: added.map((field) => ({ name: field.name, type: typeName(field) })) }),
  ...(widened.length > 0 && {
    widenedColumns: widened.map(({ from, to }) => ({ name: to.name, type: typeName(to), was: typeName(from) })),
  }),
});

export function requireActions({ added, widened }: SchemaExtension, requireAction: Extender['requireAction']): void {
  if (added.length > 0) requireAction('AlterTableAddColumns');
  if (widened.length > 0) requireAction('AlterTableAlterColumns');
}

/** Answers the columns of the shadow, which have room for the source then where they can have. */
export async function extendColumns(
  shadow: Shadow,
  source: Pick<IpcChunk, 'schema' | 'file'>,
  extender: Extender,
  limits: ChangeLimits,
): Promise<{ readonly columns: TableColumns; readonly told: ToldOfColumns }> {
  const columns = await shadow.columns();
  const extension = extensionOf(source.schema, columns.schema);
  if (extension === undefined) return { columns, told: {} };
  requireActions(extension, extender.requireAction);
  if (!shadow.isPrivate) throw hasNoShadow();
  await requireNoIndex(extension.widened, extender);
  for (const { step, file } of stepsOf(extension, source)) await shadow.change(step, file, limits);
  return { columns: await shadow.columns(), told: toldOfColumns(extension) };
}

/** Another type is another column to an index, and the engine would refuse the one, or drop the other in silence. */
async function requireNoIndex(widened: readonly WidenedColumn[], extender: Extender): Promise<void> {
  if (widened.length === 0) return;
  const indexes = await extender.indexes();
  for (const { to } of widened) {
    const index = indexes.find(({ columns }) => columns.some((text) => parseFieldPath(text).segments[0] === to.name));
    if (index === undefined) continue;
    throw refuseColumn(
      [to.name],
      `would become ${typeName(to)}, and its index ${index.name} would be lost: drop that first`,
    );
  }
}

interface StepWithColumns {
  readonly step: ChangeStep;
  readonly file?: IpcFile;
}

/** The engine casts a type to a longer one of its kind only. Any other column is made anew, and stands behind the others then. */
function* stepsOf({ added, widened }: SchemaExtension, { file }: Pick<IpcChunk, 'file'>): Generator<StepWithColumns> {
  const {
    empty = [],
    floats = [],
    cast = [],
  } = Object.groupBy(widened, ({ from, to }) => {
    if (isNull(from)) return 'empty';
    return from.type.kind === 'int' && to.type.kind === 'float' ? 'floats' : 'cast';
  });
  if (cast.length > 0) yield { step: { kind: 'alter columns', alterations: cast.map(castOf) } };
  if (floats.length > 0) yield* madeAnew(floats);
  const updates = [...cast, ...floats].flatMap(metadataOf);
  if (updates.length > 0) yield { step: { kind: 'update field metadata', updates } };
  if (empty.length > 0) yield { step: { kind: 'drop columns', columns: empty.map(({ to }) => pathOf(to)) } };
  const names = new Set([...empty.map(({ to }) => to), ...added].map(({ name }) => name));
  if (names.size > 0) yield { step: { kind: 'add null columns' }, file: fileOfColumns(names, file) };
}

const pathOf = ({ name }: Field): string => formatFieldPath({ segments: [name] });

const castOf = ({ to }: WidenedColumn) => ({
  path: pathOf(to),
  rename: undefined,
  isNullable: undefined,
  dataType: dataTypeJson(to),
});

function* madeAnew(floats: readonly WidenedColumn[]): Generator<StepWithColumns> {
  const named = floats.map((each, i) => ({ ...each, fresh: `__lancegate_wider_${i}` }));
  const columns = named.map(({ fresh, to }) => {
    const type = to.type.kind === 'float' && to.type.bitWidth === 64 ? 'DOUBLE' : 'FLOAT';
    return { name: fresh, value: ownSql(`CAST(${quoteSegment(to.name)} AS ${type})`) };
  });
  yield { step: { kind: 'add columns', columns } };
  yield { step: { kind: 'drop columns', columns: named.map(({ to }) => pathOf(to)) } };
  const alterations = named.map(({ fresh, from }) => ({
    path: fresh,
    rename: from.name,
    isNullable: from.nullable ? undefined : false,
    dataType: undefined,
  }));
  yield { step: { kind: 'alter columns', alterations } };
}

/** A column that is made anew has none. */
const metadataOf = ({ from }: WidenedColumn) =>
  from.metadata.size === 0 ? [] : [{ path: pathOf(from), metadata: Object.fromEntries(from.metadata), isWhole: true }];

const hasNoShadow = (): LancegateError =>
  new LancegateError(
    'Unsupported',
    'the engine alone can commit to this table, one operation at a time, so columns and rows are not one commit: add the columns first',
  );
