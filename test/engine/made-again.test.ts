import { madeAgainContract } from '#test/contract/made-again.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

madeAgainContract('a file system', (t) => ({ root: temporaryFolder((clean) => t.after(clean)), options: {} }));
