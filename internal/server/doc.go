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
// Enemies: clients that send too much, too fast or nothing at all; readers that stop reading;
// tokens that were revoked; lists over a million finished tasks; names that belong to others;
// kill -9 between the commit and the answer.
package server
