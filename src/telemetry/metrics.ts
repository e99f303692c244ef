/** Every instrument of the service is declared here, once. Names end in their unit, as Prometheus asks: seconds and bytes. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** What a write spends its time on: its network, our checks, other writers, Lance, the disk, the catalog. */
type WriteStage = 'receive' | 'check' | 'wait' | 'engine' | 'sync' | 'record';

/**
 * Why the service refused or closed a connection: its address has its share; all are taken; long heads of
 * requests that have not arrived take too much; it made way for a new one; it was silent for too long; its client does not read the answer; or it sent too many requests before an answer.
 */
export type ConnectionEnd =
  | 'address_share'
  | 'all_taken'
  | 'long_heads'
  | 'gave_way'
  | 'silent'
  | 'unread'
  | 'pipelined'
  | 'handshake';

/** What the counts of a batch were taken from (docs/design/commit.md); a search takes longest, the more rows the longer. */
export type CountsSource = 'key_index' | 'totals' | 'commit' | 'search';

/** Why a reader process ended: the first three are normal. */
export type ReaderDeath =
  | 'idle'
  | 'spent'
  | 'stop'
  | 'cancelled'
  | 'deadline'
  | 'memory'
  | 'signal'
  | 'exit'
  | 'protocol'
  | 'start';

const requestSeconds = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const stageSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const powersOfTwo = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/**
 * Each instance has a registry of its own. A public property is an instrument, and is called with what happened. Label values are chosen by the
 * service, never by a client: their number stays small.
 */
export class Metrics {
  readonly #registry = new Registry();

  readonly #requestDuration = this.#histogram(
    'lancegate_http_request_duration_seconds',
    'Time from the headers of a request to the end of its answer.',
    requestSeconds,
    ['method', 'route', 'status'],
  );
  readonly bytesReceived = this.#count(
    'lancegate_received_bytes_total',
    'Bytes of request bodies, as they came over the network.',
  );
  readonly requestRejected = this.#countBy<string>(
    'reason',
    'lancegate_rejected_requests_total',
    'Requests turned away, by the name of the error.',
  );
  readonly fieldIgnored = this.#countBy<string>(
    'route',
    'lancegate_ignored_fields_total',
    'Fields and query parameters of requests that the service does not know and passed over, by route.',
  );
  readonly rowsEnded = this.#countBy<'deleted' | 'failed'>(
    'outcome',
    'lancegate_ended_rows_total',
    'Rows past their time that were deleted, and looks for such rows that failed, by outcome.',
  );
  readonly connectionEnded = this.#countBy<ConnectionEnd>(
    'reason',
    'lancegate_closed_connections_total',
    'Connections that the service refused or closed to protect the others, by reason.',
  );
  readonly watchConnections = this.#watch('lancegate_connections', 'Open connections.');
  readonly uploadStarted = this.#underWay('lancegate_uploads_in_flight', 'Bodies being received.');
  readonly watchBodyMemory = this.#watch('lancegate_body_memory_bytes', 'Memory that bodies under way hold.');
  readonly watchMemoryLimit = this.#watch(
    'lancegate_memory_limit_bytes',
    'Resident memory that the service stays under.',
  );
  readonly watchMemoryFull = this.#watch(
    'lancegate_memory_full',
    '1 while new writes are refused because resident memory is near its limit.',
  );
  readonly watchBranchesBehind = this.#watch(
    'lancegate_branches_behind',
    'Branches whose newest version on storage is older than one that was acknowledged; nothing is written to them.',
  );
  readonly watchHistoryBytes = this.#watch(
    'lancegate_history_bytes',
    'Bytes that versions take which are kept only so that a table can be taken back to them.',
  );
  readonly watchUndoReach = this.#watch(
    'lancegate_undo_reach_seconds',
    'How far back every table can be taken; less than `--history` says where there was no room for more.',
  );
  readonly changesAwaited = this.#underWay('lancegate_changes_awaited', 'Requests for changes that wait for a commit.');
  readonly watchConsumerVersions = this.#watch(
    'lancegate_consumer_versions',
    'The most versions of a branch that a consumer of its changes keeps from being pruned.',
  );
  readonly watchWaitingForTables = this.#watch(
    'lancegate_waiting_for_tables',
    'Drops, replacements and other changes of whole tables that wait for the writers before them.',
  );

  readonly createFinished = this.#count(
    'lancegate_creates_total',
    'Tables created, replaced or made from a declaration.',
  );
  readonly chunkWritten = this.#count(
    'lancegate_written_chunks_total',
    'Chunks that creates and inserts have written.',
  );
  readonly writeQueued = this.#underWay(
    'lancegate_queued_writes',
    'Writes that wait for their branch, over all tables.',
  );
  readonly #merges = this.#count('lancegate_merges_total', 'Merges acknowledged.');
  readonly #mergedRows = this.#countBy<'inserted' | 'updated' | 'deleted'>(
    'change',
    'lancegate_merged_rows_total',
    'Rows changed by merges, by what happened to them.',
  );
  readonly #writeStage = this.#histogram(
    'lancegate_write_stage_duration_seconds',
    'Time writes spend in each stage.',
    stageSeconds,
    ['stage'],
  );
  readonly #writesPerCommit = this.#histogram(
    'lancegate_writes_per_commit',
    'Writes that shared one commit.',
    powersOfTwo,
  );
  readonly #sharedCommits = this.#countBy<CountsSource>(
    'counted_by',
    'lancegate_shared_commits_total',
    'Commits that writes shared, and all by row address, by what their counts were taken from: the key index, the totals, the files of the commit, or a search of the table.',
  );
  readonly commitOvertaken = this.#count(
    'lancegate_overtaken_commits_total',
    'Commits that another program overtook: their batches were written again, into what that program left.',
  );

  readonly #maintenance = this.#histogram(
    'lancegate_maintenance_duration_seconds',
    'Time that maintenance of a table took, by job and outcome.',
    stageSeconds,
    ['job', 'outcome'],
  );
  readonly #maintenanceLocked = this.#histogram(
    'lancegate_maintenance_locked_seconds',
    'Part of it for which the writers of the branch had to wait.',
    stageSeconds,
  );
  readonly #auditRecords = this.#countBy<'written' | 'lost'>(
    'outcome',
    'lancegate_audit_records_total',
    'Audit records for the audit file, written or lost because the file could not be written.',
  );
  readonly watchReaders = this.#watch('lancegate_readers', 'Reader processes.');
  readonly watchRunningQueries = this.#watch(
    'lancegate_reader_queries_running',
    'Orders that readers work on: queries, and what the engine computes for writes.',
  );
  readonly watchWaitingQueries = this.#watch('lancegate_reader_queries_waiting', 'Orders that wait for a reader.');
  readonly readerEnded = this.#countBy<ReaderDeath>(
    'reason',
    'lancegate_reader_ends_total',
    'Reader processes that ended, by reason: idle, spent (held much memory), stop and cancelled (no client waits for the answer any more) are normal; deadline, memory, signal, exit, protocol and start (it could not be started) cost a query.',
  );

  /** The same figures as those of the readers. */
  readonly ofIndexBuilders = {
    watchReaders: this.#watch('lancegate_index_builders', 'Processes that build indexes or compact.'),
    watchRunningQueries: this.#watch(
      'lancegate_index_builds_running',
      'Index builds and compactions that a process works on.',
    ),
    watchWaitingQueries: this.#watch(
      'lancegate_index_builds_waiting',
      'Index builds and compactions that wait for a process.',
    ),
    readerEnded: this.#countBy<ReaderDeath>(
      'reason',
      'lancegate_index_builder_ends_total',
      'Such processes that ended, by reason, as those of readers: memory, signal, exit, protocol and start cost a build or a compaction.',
    ),
  };

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** Always 1, as Prometheus has it: the labels say what runs. */
  nameBuild(version: string): void {
    const registers = [this.#registry];
    const help = 'The version of the service, and of the Node that runs it.';
    const gauge = new Gauge({ registers, name: 'lancegate_build_info', help, labelNames: ['version', 'node'] });
    gauge.set({ version, node: process.versions.node }, 1);
  }

  /** `route` is the pattern, never the path: identifiers would make a series each. */
  requestFinished(request: { method: string; route: string; status: number }, durationMs: number): void {
    this.#requestDuration.observe({ ...request, status: String(request.status) }, durationMs / 1000);
  }

  mergeFinished(rows: { readonly inserted: number; readonly updated: number; readonly deleted: number }): void {
    this.#merges();
    for (const change of ['inserted', 'updated', 'deleted'] as const) this.#mergedRows(change, rows[change]);
  }

  /** Runs one stage of a write and notes how long it took, also when it fails. */
  async writeStage<Result>(stage: WriteStage, run: () => Promise<Result>): Promise<Result> {
    const end = this.#writeStage.startTimer({ stage });
    try {
      return await run();
    } finally {
      end();
    }
  }

  commitFinished(writes: number): void {
    this.#writesPerCommit.observe(writes);
  }

  countsTaken(countedBy: CountsSource): void {
    this.#sharedCommits(countedBy);
  }

  maintenanceFinished(
    labels: { job: 'compact' | 'index' | 'prune'; outcome: 'done' | 'failed' },
    { durationMs, lockedMs }: { durationMs: number; lockedMs: number },
  ): void {
    this.#maintenance.observe(labels, durationMs / 1000);
    if (lockedMs > 0) this.#maintenanceLocked.observe(lockedMs / 1000);
  }

  auditWritten(records: number): void {
    this.#auditRecords('written', records);
  }

  auditLost(records: number): void {
    this.#auditRecords('lost', records);
  }

  /** Prometheus reads this text. */
  async render(): Promise<{ readonly contentType: string; readonly body: string }> {
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  #count(name: string, help: string): (amount?: number) => void {
    const counter = new Counter({ registers: [this.#registry], name, help });
    return (amount) => counter.inc(amount);
  }

  #countBy<Value extends string>(label: string, name: string, help: string): (value: Value, amount?: number) => void {
    const counter = new Counter({ registers: [this.#registry], name, help, labelNames: [label] });
    return (value, amount) => counter.inc({ [label]: value }, amount);
  }

  /** The instrument returns what ends the thing that began; calling that again does nothing. */
  #underWay(name: string, help: string): () => () => void {
    const gauge = new Gauge({ registers: [this.#registry], name, help });
    return () => {
      let isUnderWay = true;
      gauge.inc();
      return () => {
        if (isUnderWay) gauge.dec();
        isUnderWay = false;
      };
    };
  }

  #histogram(name: string, help: string, buckets: number[], labelNames: readonly string[] = []): Histogram {
    return new Histogram({ registers: [this.#registry], name, help, buckets, labelNames });
  }

  /** A gauge: `read` is called whenever the metrics are rendered. */
  #watch(name: string, help: string): (read: () => number) => void {
    const registers = [this.#registry];
    return (read) =>
      void new Gauge({
        registers,
        name,
        help,
        collect() {
          this.set(read());
        },
      });
  }
}
