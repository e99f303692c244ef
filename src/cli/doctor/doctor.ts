/** `lancegate doctor` looks at all that a service with these settings needs, changes nothing, and says what to do. */
import { dataFolderAt } from '../../config/data-folder.ts';
import { showDuration } from '../../config/value-types.ts';
import { CliError, write } from '../command.ts';
import { commandOf } from '../command-line.ts';
import { formOptions } from '../remote/printed-rows.ts';
import { runningService } from '../remote/running-service.ts';
import { type Finding, failed, type Look, type OtherClock, ok, type Patient, reasonOf, warning } from './finding.ts';
import { lookAtPort, lookAtService } from './listening.ts';
import { lookAtDisks, lookAtOpenFiles, lookAtVersions } from './machine.ts';
import { lookAtDatabase, lookAtIssuers, lookAtStore } from './needs.ts';

const looks: Readonly<Record<string, Look>> = {
  versions: lookAtVersions,
  service: lookAtService,
  port: lookAtPort,
  disk: lookAtDisks,
  'open files': lookAtOpenFiles,
  store: lookAtStore,
  database: lookAtDatabase,
  issuers: lookAtIssuers,
};

/** What has not answered by then is not there for a client either. */
const answersWithinMs = 15_000;

export const doctorCommand = commandOf(
  {
    name: 'doctor',
    summary:
      'Looks at what a service with these settings needs, and says what to do: versions, ports, disk, open files, store, database, issuers, clock. Changes nothing. Takes all flags of serve.',
    options: { json: formOptions.json },
    settings: ['dataFolder'],
    takesAllSettings: true,
  },
  async ({ options: { json }, reading: { values: config } }, context) => {
    const running = runningService(dataFolderAt(config.dataFolder), context);
    const found = await examine({ config, context, running });
    await write(context.stdout, json ? `${JSON.stringify(found, undefined, 2)}\n` : shown(found));
    const bad = found.filter(({ state }) => state === 'failed').length;
    if (bad > 0) throw new CliError(`${bad} of ${found.length} checks failed; each says what to do`);
  },
);

interface NamedFinding extends Pick<Finding, 'state' | 'said' | 'next'> {
  readonly check: string;
}

async function examine(patient: Patient): Promise<readonly NamedFinding[]> {
  const found = await Promise.all(
    Object.entries(looks).map(async ([check, look]) => {
      const findings = await inTime(look, patient);
      return [findings].flat().map((finding) => ({ check, ...finding }));
    }),
  );
  const clocks = found.flat().flatMap(({ clock }) => (clock === undefined ? [] : [clock]));
  const all = [...found.flat(), { check: 'clock', ...clockFinding(clocks, patient) }];
  return all.map(({ check, state, said, next }) => ({ check, state, said, ...(next !== undefined && { next }) }));
}

async function inTime(look: Look, patient: Patient): Promise<Finding | readonly Finding[]> {
  const late = Promise.withResolvers<Finding>();
  const said = `no answer within ${showDuration(answersWithinMs)}`;
  const cancel = patient.context.clock.schedule(answersWithinMs, () => late.resolve(failed(said, 'check the network')));
  try {
    return await Promise.race([look(patient), late.promise]);
  } catch (error) {
    return failed(reasonOf(error), 'this check itself failed: please report it');
  } finally {
    cancel();
  }
}

function clockFinding(clocks: readonly OtherClock[], { config, context }: Patient): Finding {
  const now = new Date(context.clock.nowMs()).toISOString();
  const [worst] = clocks.toSorted((one, other) => Math.abs(other.aheadMs) - Math.abs(one.aheadMs));
  if (worst === undefined) return ok(`it is ${now} here, and nothing else was asked for the time`);
  const offMs = Math.abs(Math.round(worst.aheadMs));
  // Half a second is within what a Date header and the way to it leave open.
  if (offMs < 2_000) return ok(`it is ${now} here, as for ${clocks.map(({ whose }) => whose).join(' and ')}`);
  const said = `it is ${now} here, ${showDuration(offMs)} ${worst.aheadMs > 0 ? 'behind' : 'ahead of'} ${worst.whose}`;
  const next = 'set the clocks by NTP (`timedatectl` says whether it is on)';
  return offMs > config.clockSkewMs ? failed(`${said}, more than --clock-skew`, next) : warning(said, next);
}

function shown(found: readonly NamedFinding[]): string {
  const width = Math.max(...found.map(({ check }) => check.length));
  const lines = found.flatMap(({ check, state, said, next }) => [
    `${state.padEnd('warning'.length)}  ${check.padEnd(width)}  ${said}`,
    ...(next === undefined ? [] : [`${' '.repeat('warning'.length + width + 4)}${next}`]),
  ]);
  return `${lines.join('\n')}\n`;
}
