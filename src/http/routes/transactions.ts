import { describeTransaction } from '../../operations/describe-transaction.ts';
import { jsonRoute, Nothing } from '../json-route.ts';
import { transactionTarget } from '../route.ts';

/** Which table a transaction belongs to only its record says: the policy is asked from inside the operation. */
export const describeTransactionRoute = jsonRoute(describeTransaction, {
  methods: ['POST'],
  path: '/v1/transaction/:id/describe',
  target: transactionTarget,
  action: 'DescribeTransaction',
  body: Nothing,
  answer: async (operation, { target: id }, { access }) => {
    const { status, properties } = await operation({
      id,
      visible: ({ table, branch }) => access.needs('DescribeTransaction', { kind: 'table', table }, branch),
    });
    return { status, properties };
  },
});
