/** Every instrument of the service, declared once. Names end in their unit, as Prometheus asks: seconds and bytes. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export interface RenderedMetrics {
  readonly contentType: string;
  readonly body: string;
}

/** What a merge spends its time on: its network, our checks, other writers, Lance, the disk, the catalog. */
export type MergeStage = 'receive' | 'check' | 'wait' | 'engine' | 'sync' | 'record';

/**
 * Why the service refused or closed a connection: its address has its share; all are taken; it made way for a new one; it was
 * silent for too long; its client does not read the answer; or it sent too many requests before an answer.
 */
export type ConnectionEnd = 'address_share' | 'all_taken' | 'gave_way' | 'silent' | 'unread' | 'pipelined';

/** What the counts of a batch were taken from (docs/adr/0011); a search takes longest, the more rows the longer. */
export type CountsSource = 'key_index' | 'totals' | 'commit' | 'search';

/** Why a reader process ended: the first three are normal. */
export type ReaderDeath = 'idle' | 'spent' | 'stop' | 'deadline' | 'memory' | 'signal' | 'exit' | 'protocol' | 'start';

export interface MergedRows {
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
}

const requestSeconds = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const stageSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const powersOfTwo = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** Own registry per instance. Label values are chosen by the service, never by a client: their number stays small. */
export class Metrics {
  readonly #registry = new Registry();

  readonly #requestDuration = this.#histogram(
    'lancegate_http_request_duration_seconds',
    'Time from the headers of a request to the end of its answer.',
    requestSeconds,
    ['method', 'route', 'status'],
  );
  readonly #received = this.#counter(
    'lancegate_received_bytes_total',
    'Bytes of request bodies, as they came over the network.',
  );
  readonly #rejected = this.#counter(
    'lancegate_rejected_requests_total',
    'Requests turned away, by the name of the error.',
    ['reason'],
  );
  readonly #endedConnections = this.#counter(
    'lancegate_closed_connections_total',
    'Connections that the service refused or closed to protect the others, by reason.',
    ['reason'],
  );
  readonly #uploads = this.#gauge('lancegate_uploads_in_flight', 'Bodies being received.');
  readonly #queuedMerges = this.#gauge(
    'lancegate_queued_merges',
    'Merges that wait for their branch, over all tables.',
  );
  readonly #merges = this.#counter('lancegate_merges_total', 'Merges acknowledged.');
  readonly #mergedRows = this.#counter(
    'lancegate_merged_rows_total',
    'Rows changed by merges, by what happened to them.',
    ['change'],
  );
  readonly #mergeStage = this.#histogram(
    'lancegate_merge_stage_duration_seconds',
    'Time merges spend in each stage.',
    stageSeconds,
    ['stage'],
  );
  readonly #mergesPerCommit = this.#histogram(
    'lancegate_merges_per_commit',
    'Merges that shared one commit.',
    powersOfTwo,
  );
  readonly #sharedCommits = this.#counter(
    'lancegate_shared_commits_total',
    'Commits that merges shared, and all by row address, by what their counts were taken from: the key index, the totals, the files of the commit, or a search of the table.',
    ['counted_by'],
  );
  readonly #overtakenCommits = this.#counter(
    'lancegate_overtaken_commits_total',
    'Commits that another program overtook: their batches were merged again, into what that program left.',
    [],
  );
  readonly #creates = this.#counter('lancegate_creates_total', 'Tables created, replaced or made from a declaration.');
  readonly #chunks = this.#counter('lancegate_create_chunks_total', 'Chunks that creates have written.');
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
  readonly #auditRecords = this.#counter(
    'lancegate_audit_records_total',
    'Audit records for the audit file, written or lost because the file could not be written.',
    ['outcome'],
  );
  readonly #readerEnds = this.#counter(
    'lancegate_reader_ends_total',
    'Reader processes that ended, by reason: idle, spent (held much memory) and stop are normal; deadline, memory, signal, exit, protocol and start (it could not be started) cost a query.',
    ['reason'],
  );

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** `route` is the pattern, never the path: identifiers would make a series each. */
  requestFinished(request: { method: string; route: string; status: number }, durationMs: number): void {
    this.#requestDuration.observe({ ...request, status: String(request.status) }, durationMs / 1000);
  }

  bytesReceived(bytes: number): void {
    this.#received.inc(bytes);
  }

  requestRejected(reason: string): void {
    this.#rejected.inc({ reason });
  }

  connectionEnded(reason: ConnectionEnd): void {
    this.#endedConnections.inc({ reason });
  }

  watchConnections(read: () => number): void {
    this.#watch('lancegate_connections', 'Open connections.', read);
  }

  /** Returns what ends the upload; calling it again does nothing. */
  uploadStarted(): () => void {
    return hold(this.#uploads);
  }

  /** Returns what ends the wait; calling it again does nothing. */
  mergeQueued(): () => void {
    return hold(this.#queuedMerges);
  }

  watchBodyMemory(read: () => number): void {
    this.#watch('lancegate_body_memory_bytes', 'Memory that bodies under way hold.', read);
  }

  watchWaitingForTables(read: () => number): void {
    this.#watch(
      'lancegate_waiting_for_tables',
      'Drops, replacements and other changes of whole tables that wait for the writers before them.',
      read,
    );
  }

  watchMemoryLimit(limitBytes: number, isFull: () => boolean): void {
    this.#watch('lancegate_memory_limit_bytes', 'Resident memory that the service stays under.', () => limitBytes);
    this.#watch(
      'lancegate_memory_full',
      '1 while new writes are refused because resident memory is near its limit.',
      () => (isFull() ? 1 : 0),
    );
  }

  watchReaders(read: { processes: () => number; running: () => number; waiting: () => number }): void {
    this.#watch('lancegate_readers', 'Reader processes.', read.processes);
    this.#watch(
      'lancegate_reader_queries_running',
      'Queries and merges with filters that a reader works on.',
      read.running,
    );
    this.#watch(
      'lancegate_reader_queries_waiting',
      'Queries and merges with filters that wait for a reader.',
      read.waiting,
    );
  }

  readerEnded(reason: ReaderDeath): void {
    this.#readerEnds.inc({ reason });
  }

  mergeFinished(rows: MergedRows): void {
    this.#merges.inc();
    for (const change of ['inserted', 'updated', 'deleted'] as const) this.#mergedRows.inc({ change }, rows[change]);
  }

  /** Runs one stage of a merge and notes how long it took, also when it fails. */
  async mergeStage<Result>(stage: MergeStage, run: () => Promise<Result>): Promise<Result> {
    const end = this.#mergeStage.startTimer({ stage });
    try {
      return await run();
    } finally {
      end();
    }
  }

  commitFinished(merges: number): void {
    this.#mergesPerCommit.observe(merges);
  }

  countsTaken(countedBy: CountsSource): void {
    this.#sharedCommits.inc({ counted_by: countedBy });
  }

  commitOvertaken(): void {
    this.#overtakenCommits.inc();
  }

  maintenanceFinished(
    labels: { job: 'compact' | 'index' | 'prune'; outcome: 'done' | 'failed' },
    { durationMs, lockedMs }: { durationMs: number; lockedMs: number },
  ): void {
    this.#maintenance.observe(labels, durationMs / 1000);
    if (lockedMs > 0) this.#maintenanceLocked.observe(lockedMs / 1000);
  }

  auditWritten(records: number): void {
    this.#auditRecords.inc({ outcome: 'written' }, records);
  }

  auditLost(records: number): void {
    this.#auditRecords.inc({ outcome: 'lost' }, records);
  }

  createFinished(): void {
    this.#creates.inc();
  }

  chunkWritten(): void {
    this.#chunks.inc();
  }

  /** The Prometheus text format. */
  async render(): Promise<RenderedMetrics> {
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  #counter(name: string, help: string, labelNames: readonly string[] = []): Counter {
    return new Counter({ registers: [this.#registry], name, help, labelNames });
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ registers: [this.#registry], name, help });
  }

  #histogram(name: string, help: string, buckets: number[], labelNames: readonly string[] = []): Histogram {
    return new Histogram({ registers: [this.#registry], name, help, buckets, labelNames });
  }

  /** A gauge: `read` is called whenever the metrics are rendered. */
  #watch(name: string, help: string, read: () => number): void {
    new Gauge({
      registers: [this.#registry],
      name,
      help,
      collect() {
        this.set(read());
      },
    });
  }
}

function hold(gauge: Gauge): () => void {
  let held = true;
  gauge.inc();
  return () => {
    if (held) gauge.dec();
    held = false;
  };
}
