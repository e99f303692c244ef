import type { IndexJob, IndexJobs } from '../../indexing/index-jobs.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
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
export const describeJob =
  ({ indexJobs }: Deps) =>
  async (command: JobCommand): Promise<IndexJob> =>
    findVisible(indexJobs, command);

/** The newest first: all that are visible of those that are remembered. */
export const listJobs =
  ({ indexJobs }: Deps) =>
  async ({ visible }: Pick<JobCommand, 'visible'>): Promise<readonly IndexJob[]> =>
    indexJobs.list().filter((job) => visible(subjectOf(job)));

/** Answers when the job has ended. One that had ended before stays as it was. */
export const cancelJob =
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
