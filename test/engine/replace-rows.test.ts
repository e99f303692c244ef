import { replacedRowsContract } from '#test/contract/replaced-rows.ts';
import { onFolder, onStore } from '#test/fixtures/table-places.ts';

replacedRowsContract(onFolder);
replacedRowsContract(onStore);
