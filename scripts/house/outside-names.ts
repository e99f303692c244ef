/** Names with a capital inside that comments and documents may use, though our code has them nowhere. */
export const outsideNames: ReadonlySet<string> = new Set([
  // Products and general words.
  ...['JavaScript', 'TypeScript', 'DataFusion', 'OpenID', 'GitHub', 'PascalCase', 'MurmurHash3', 'SipRound'],
  // Messages of the Lance format.
  ...['BasePath', 'DataFile', 'DataFragment', 'CreateIndex', 'ReserveFragments', 'UpdateConfig'],
  // Of Arrow, and of the clients whose use the documents show.
  ...['LargeUtf8', 'ClientConfig', 'cherryPick', 'cloneTable', 'LanceDbNamespaceClientBuilder', 'QueryTable'],
  ...['RestAdapter'],
]);
