import Type from 'typebox';
import { showTable } from '../../kernel/ids.ts';
import { describeTransaction } from '../../operations/describe-transaction.ts';
import { StringMap } from '../../wire/json-body.ts';
import { jsonRoute, Nothing } from '../json-route.ts';
import { transactionTarget } from '../route.ts';

const Transaction = Type.Object({ status: Type.String(), properties: StringMap });

/** Which table a transaction belongs to only its record says: the policy is asked from inside the operation. */
export const describeTransactionRoute = jsonRoute(describeTransaction, {
  methods: ['POST'],
  path: '/v1/transaction/:id/describe',
  target: transactionTarget,
  action: 'DescribeTransaction',
  summary: 'Says what became of a transaction',
  answers: Transaction,
  body: Nothing,
  answer: async (operation, { target: id }, { access, database }) => {
    const { status, properties } = await operation({
      id,
      visible: ({ table, branch }) =>
        database.holds(table) && access.needs('DescribeTransaction', { kind: 'table', table }, branch),
      show: (table) => showTable(database.shown(table)),
    });
    return { status, properties };
  },
});
