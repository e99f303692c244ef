import Type, { type Static } from 'typebox';
import type { Action } from '../../auth/policy/actions.ts';
import type { Database } from '../../endpoint/database.ts';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { type Everywhere, jsonAnswer, noTarget, type RouteInput } from '../../endpoint/route.ts';
import type { IndexJob, IndexJobs } from '../../indexing/index-jobs.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import { Count } from '../../wire/json-body.ts';
import type { Visible } from '../visible-page.ts';

interface Deps {
  readonly indexJobs: IndexJobs;
}

type JobVisible = Visible<{ readonly table: TableRef; readonly branch: BranchName | undefined }>;

interface JobCommand {
  readonly id: string;
  readonly visible: JobVisible;
}

/** `JobNotFound`, also for one that is not visible. */
const describeJob =
  ({ indexJobs }: Deps) =>
  async (command: JobCommand): Promise<IndexJob> =>
    findVisible(indexJobs, command);

/** Returns all that are visible of those that are remembered, the newest first. */
const listJobs =
  ({ indexJobs }: Deps) =>
  async ({ visible }: Pick<JobCommand, 'visible'>): Promise<readonly IndexJob[]> =>
    indexJobs.list().filter((job) => visible(subjectOf(job)));

/** Answers when the job has ended. One that had ended before stays as it was. */
const cancelJob =
  ({ indexJobs }: Deps) =>
  async (command: JobCommand): Promise<IndexJob> => {
    const job = findVisible(indexJobs, command);
    await indexJobs.cancel(job);
    return job;
  };

function findVisible(jobs: IndexJobs, { id, visible }: JobCommand): IndexJob {
  const job = jobs.find(id);
  if (job !== undefined && visible(subjectOf(job))) return job;
  throw new LancegateError(
    'JobNotFound',
    'the job is not known; if the service was restarted, the job ended, and a listing of indexes says with what result',
  );
}

const subjectOf = ({ table: { ref }, branch }: IndexJob) => ({ table: ref, branch });

const JobBody = Type.Object({ job_id: Type.String({ maxLength: 255 }) });

const jobFields = {
  job_id: Type.String(),
  job_type: Type.String(),
  job_state: Type.String(),
  creation_ms: Count,
};
const Jobs = Type.Object({
  jobs: Type.Array(Type.Object({ ...jobFields, table: Type.String(), state: Type.String(), created_at_millis: Count })),
});
const DescribedJob = Type.Object({
  ...jobFields,
  spec: Type.Object({
    table: Type.String(),
    branch: Type.String(),
    index_name: Type.Optional(Type.String()),
    column: Type.String(),
    index_type: Type.String(),
  }),
  result: Type.Optional(Type.Object({ transaction_id: Type.Optional(Type.String()) })),
  failure: Type.Optional(Type.Object({ phase: Type.String(), message: Type.String(), retryable: Type.Boolean() })),
});

/** A replica knows its own jobs. */
const untilOneKnows: Everywhere = async (own, others) => {
  try {
    return await own();
  } catch (error) {
    if (!(error instanceof LancegateError) || error.kind !== 'JobNotFound') throw error;
    const known = (await others()).find(({ status }) => status !== error.entry.status);
    if (known === undefined) throw error;
    return known;
  }
};

const jobsOfAll: Everywhere = async (own, others) => {
  const answers = [await own(), ...(await others()).filter(({ status }) => status === 200)];
  const jobs = answers.flatMap((answer) =>
    'text' in answer ? (JSON.parse(answer.text) as Static<typeof Jobs>).jobs : [],
  );
  return jsonAnswer({ jobs: jobs.sort((a, b) => b.creation_ms - a.creation_ms) });
};

/** Which table a job is of only the job says: the policy is asked from inside the operation. */
const mayAsk =
  (how: 'needs' | 'allows', action: Action, { access, database }: RouteInput): JobVisible =>
  ({ table, branch }) =>
    database.holds(table) && access[how](action, { kind: 'table', table }, branch);

export const describeJobRoute = jsonRoute(describeJob, {
  path: '/v1/jobs/describe',
  target: noTarget,
  action: 'DescribeTable',
  operationId: 'DescribeJob',
  summary: 'Shows how far a job is, or how it ended',
  answers: DescribedJob,
  everywhere: untilOneKnows,
  body: JobBody,
  answer: async (operation, { body }, input) => {
    const job = await operation({ id: body.job_id, visible: mayAsk('needs', 'DescribeTable', input) });
    return { ...common(job), spec: specOf(job, input.database), ...ending(job) };
  },
});

export const listJobsRoute = jsonRoute(listJobs, {
  path: '/v1/jobs/list',
  target: noTarget,
  action: 'DescribeTable',
  operationId: 'ListJobs',
  summary: 'Lists the jobs, the newest first',
  answers: Jobs,
  everywhere: jobsOfAll,
  body: Nothing,
  answer: async (operation, _call, input) => {
    const jobs = await operation({ visible: mayAsk('allows', 'DescribeTable', input) });
    return { jobs: jobs.map((job) => listed(job, input.database)) };
  },
});

/** Who may build an index of the branch may stop the build of one. */
export const cancelJobRoute = jsonRoute(cancelJob, {
  path: '/v1/jobs/cancel',
  target: noTarget,
  action: 'CreateTableIndex',
  operationId: 'CancelJob',
  summary: 'Ends a job that is not done',
  answers: Type.Object(jobFields),
  everywhere: untilOneKnows,
  body: JobBody,
  answer: async (operation, { body }, input) =>
    common(await operation({ id: body.job_id, visible: mayAsk('needs', 'CreateTableIndex', input) })),
});

const common = (job: IndexJob) => ({
  job_id: job.id,
  job_type: 'create_index',
  job_state: job.state,
  creation_ms: job.createdAtMs,
});

/** The LanceDB SDKs read the last two in a listing, and the others of one job. */
const listed = (job: IndexJob, database: Database) => ({
  ...common(job),
  table: showTable(database.shown(job.table.ref)),
  state: listedState[job.state],
  created_at_millis: job.createdAtMs,
});

const listedState: Readonly<Record<IndexJob['state'], string>> = {
  IN_PROGRESS: 'running',
  DONE: 'finished',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
};

const specOf = ({ table, branch, spec: { name, column, options } }: IndexJob, database: Database) => ({
  table: showTable(database.shown(table.ref)),
  branch: branch ?? 'main',
  index_name: name,
  column,
  index_type: options.type,
});

function ending({ state, failure, transactionId }: IndexJob) {
  if (state === 'DONE') return { result: { transaction_id: transactionId } };
  if (state !== 'FAILED' || failure === undefined) return {};
  const message = failure.kind === 'Internal' ? 'internal error; the log has it' : failure.message;
  return { failure: { phase: 'build', message, retryable: failure.entry.retry === 'later' } };
}
