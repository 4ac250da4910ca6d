// Package server answers the API: REST and OpenAPI 3.1 under /api/v1, streams, tokens, limits.
//
// Place: layer 5, a door. It reads and writes through the ports of store, history and blob, asks
// the leader's memory through Live, and knows no adapter.
//
// Promise: every route is one row of a table, from which dispatch, authentication, strict query
// parameters, audit and the OpenAPI document all follow; every JSON answer is {code, message,
// data}, every refusal {code, reason, message, hint, fields, retryable} in the caller's language;
// what was acknowledged was committed; a stream ends within seconds of its token.
//
// Rooms: the packages below are the rooms, each with its own state, and this one assembles them. From the lowest up: refuse
// (the words of refusals), limit, truth (the store), access (who may do what), rest (one request and the document), door
// (who comes in), stream, audit, objects (the plain verbs of all kinds), tracker, tenant, cluster, report, archive, train, work;
// console beside them. A room knows those below it and never the server.
//
// A new kind: a row in api.Kinds gives it routes, schemas and a place in the store; a row of hooks (objects.Hooks) in a file
// of its own says who may read and write it, what is fresh, what is admitted, what may change, how it is filtered, shown and
// deleted; that row is added to the list in assemble.go. The handlers know no kind by name, and a server with a kind that
// has no row is not built.
//
// Enemies: clients that send too much, too fast or nothing at all; readers that stop reading;
// tokens that were revoked; lists over a million finished tasks; names that belong to others;
// kill -9 between the commit and the answer.
package server
