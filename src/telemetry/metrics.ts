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

/** What told whose rows of a shared commit were new (docs/adr/0011); a search takes longest, the more rows the longer. */
export type CountsToldBy = 'places' | 'totals' | 'memory' | 'commit' | 'search';

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
  readonly #on = { registers: [this.#registry] };

  readonly #requestDuration = new Histogram({
    ...this.#on,
    name: 'lancegate_http_request_duration_seconds',
    help: 'Time from the headers of a request to the end of its answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: requestSeconds,
  });
  readonly #received = new Counter({
    ...this.#on,
    name: 'lancegate_received_bytes_total',
    help: 'Bytes of request bodies, as they came over the network.',
  });
  readonly #rejected = new Counter({
    ...this.#on,
    name: 'lancegate_rejected_requests_total',
    help: 'Requests turned away, by the name of the error.',
    labelNames: ['reason'],
  });
  readonly #endedConnections = new Counter({
    ...this.#on,
    name: 'lancegate_closed_connections_total',
    help: 'Connections that the service refused or closed to protect the others, by reason.',
    labelNames: ['reason'],
  });
  readonly #uploads = new Gauge({
    ...this.#on,
    name: 'lancegate_uploads_in_flight',
    help: 'Bodies being received.',
  });
  readonly #queuedMerges = new Gauge({
    ...this.#on,
    name: 'lancegate_queued_merges',
    help: 'Merges that wait for their turn, over all tables.',
  });
  readonly #merges = new Counter({
    ...this.#on,
    name: 'lancegate_merges_total',
    help: 'Merges acknowledged.',
  });
  readonly #mergedRows = new Counter({
    ...this.#on,
    name: 'lancegate_merged_rows_total',
    help: 'Rows changed by merges, by what happened to them.',
    labelNames: ['change'],
  });
  readonly #mergeStage = new Histogram({
    ...this.#on,
    name: 'lancegate_merge_stage_duration_seconds',
    help: 'Time merges spend in each stage.',
    labelNames: ['stage'],
    buckets: stageSeconds,
  });
  readonly #mergesPerCommit = new Histogram({
    ...this.#on,
    name: 'lancegate_merges_per_commit',
    help: 'Merges that shared one commit.',
    buckets: powersOfTwo,
  });
  readonly #sharedCommits = new Counter({
    ...this.#on,
    name: 'lancegate_shared_commits_total',
    help: 'Commits that merges shared, by what told which rows were new: totals, memory, commit, or a search of the table; and all that were made by the places of their rows.',
    labelNames: ['told_by'],
  });
  readonly #outsideCommits = new Counter({
    ...this.#on,
    name: 'lancegate_outside_commits_total',
    help: 'Commits of rows by others that came between a look at a table and its merge, by whether keys were repaired.',
    labelNames: ['outcome'],
  });
  readonly #creates = new Counter({
    ...this.#on,
    name: 'lancegate_creates_total',
    help: 'Tables created, replaced or made from a declaration.',
  });
  readonly #chunks = new Counter({
    ...this.#on,
    name: 'lancegate_create_chunks_total',
    help: 'Chunks that creates have written.',
  });
  readonly #maintenance = new Histogram({
    ...this.#on,
    name: 'lancegate_maintenance_duration_seconds',
    help: 'Time that looking after a table took, by job and outcome.',
    labelNames: ['job', 'outcome'],
    buckets: stageSeconds,
  });
  readonly #maintenanceTurn = new Histogram({
    ...this.#on,
    name: 'lancegate_maintenance_turn_seconds',
    help: 'Part of it in which the writers of the table were kept out.',
    buckets: stageSeconds,
  });
  readonly #auditRecords = new Counter({
    ...this.#on,
    name: 'lancegate_audit_records_total',
    help: 'Audit records for the audit file, written or lost because the file could not be written.',
    labelNames: ['outcome'],
  });
  readonly #readerEnds = new Counter({
    ...this.#on,
    name: 'lancegate_reader_ends_total',
    help: 'Reader processes that ended, by reason: idle, spent (held much memory) and stop are normal; deadline, memory, signal, exit, protocol and start (it could not be started) cost a query.',
    labelNames: ['reason'],
  });
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

  /** `read` is asked whenever the metrics are rendered: whether writes are refused for want of resident memory. */
  watchMemoryLimit(limitBytes: number, isFull: () => boolean): void {
    new Gauge({
      ...this.#on,
      name: 'lancegate_memory_limit_bytes',
      help: 'Resident memory that the service stays under.',
    }).set(limitBytes);
    new Gauge({
      ...this.#on,
      name: 'lancegate_memory_full',
      help: '1 while new writes are refused because resident memory is near its limit.',
      collect() {
        this.set(isFull() ? 1 : 0);
      },
    });
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

  /** A gauge: `read` is called whenever the metrics are rendered. */
  #watch(name: string, help: string, read: () => number): void {
    new Gauge({
      ...this.#on,
      name,
      help,
      collect() {
        this.set(read());
      },
    });
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

  countsTold(toldBy: CountsToldBy): void {
    this.#sharedCommits.inc({ told_by: toldBy });
  }

  outsideCommit(outcome: 'harmless' | 'repaired' | 'failed'): void {
    this.#outsideCommits.inc({ outcome });
  }

  maintenanceFinished(
    labels: { job: 'optimize' | 'index' | 'prune'; outcome: 'done' | 'failed' },
    { durationMs, heldMs }: { durationMs: number; heldMs: number },
  ): void {
    this.#maintenance.observe(labels, durationMs / 1000);
    if (heldMs > 0) this.#maintenanceTurn.observe(heldMs / 1000);
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
}

function hold(gauge: Gauge): () => void {
  let held = true;
  gauge.inc();
  return () => {
    if (held) gauge.dec();
    held = false;
  };
}
