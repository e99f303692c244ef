import type { Metrics } from '../../telemetry/metrics.ts';
import { authorize, type Route } from '../route.ts';

/** Outside the base path, beside the health checks. */
export const metricsRoute = (metrics: Pick<Metrics, 'render'>): Route => ({
  methods: ['GET'],
  path: '/metrics',
  prepare(input) {
    authorize(input, 'ReadMetrics', { kind: 'namespace', path: [] }, undefined);
    return {
      body: 'json',
      answer: async () => {
        const { contentType, body } = await metrics.render();
        return { contentType, text: body };
      },
    };
  },
});
