/** The routes for those who operate the service. */
import Type, { type Static } from 'typebox';
import { jsonDescription } from '../../endpoint/description.ts';
import { jsonAnswer, type Route } from '../../endpoint/route.ts';
import type { Metrics } from '../../telemetry/metrics.ts';

const Configuration = Type.Object({
  settings: Type.Array(
    Type.Object({ flag: Type.String(), value: Type.Union([Type.String(), Type.Null()]), source: Type.String() }),
  ),
});

const action = 'DescribeConfiguration';

/** It is that of the process that answers; secrets are masked already. The specification has no such operation. */
export const configurationRoute = (settings: Static<typeof Configuration>['settings']): Route => ({
  methods: ['GET'],
  path: '/v1/configuration',
  description: {
    ...jsonDescription({
      action,
      summary: 'The settings that the service was started with, and where each comes from',
      body: Type.Object({}),
      answers: Configuration,
      knowsBranches: false,
      takesKey: false,
    }),
    bodies: {},
  },
  prepare({ access }) {
    access.require(action, { kind: 'namespace', path: [] });
    return { body: 'json', answer: async () => jsonAnswer({ settings }) };
  },
});

/** Outside the base path, beside the health checks. */
export const metricsRoute = (metrics: Pick<Metrics, 'render'>): Route => ({
  methods: ['GET'],
  path: '/metrics',
  prepare({ access }) {
    access.require('ReadMetrics', { kind: 'namespace', path: [] });
    return {
      body: 'json',
      answer: async () => {
        const { contentType, body } = await metrics.render();
        return { contentType, text: body };
      },
    };
  },
});
