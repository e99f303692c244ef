import Type from 'typebox';
import type { DescribeTransaction } from '../../operations/describe-transaction.ts';
import { jsonRoute } from '../json-route.ts';
import { type Route, transactionTarget } from '../route.ts';

/** Which table a transaction belongs to only its record says: the policy is asked from inside the operation. */
export const describeTransactionRoute = (describeTransaction: DescribeTransaction): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/transaction/:id/describe',
    target: transactionTarget,
    action: 'DescribeTransaction',
    body: Type.Object({}),
    answer: async ({ target: id, needs }) => {
      const { status, properties } = await describeTransaction({
        id,
        visible: ({ table, branch }) => needs('DescribeTransaction', { kind: 'table', table }, branch),
      });
      return { status, properties };
    },
  });
