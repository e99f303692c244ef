import type { Route } from '../../../endpoint/route.ts';
import type { Metrics } from '../../../telemetry/metrics.ts';

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
