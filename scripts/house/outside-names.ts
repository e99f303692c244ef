/** Names with a capital inside that comments and documents may use, though our code has them nowhere. */
export const outsideNames: ReadonlySet<string> = new Set([
  // Products and general words.
  ...['JavaScript', 'TypeScript', 'DataFusion', 'OpenAPI', 'OpenID', 'PascalCase', 'SipRound', 'TypeBox'],
  // Messages of the Lance format.
  ...['CreateIndex', 'ReserveFragments', 'UpdateConfig'],
  // Of Arrow, and of the clients whose use the documents show.
  ...['LargeUtf8', 'ClientConfig', 'cherryPick', 'cloneTable', 'LanceDbNamespaceClientBuilder', 'QueryTable'],
  ...['RestAdapter'],
]);
