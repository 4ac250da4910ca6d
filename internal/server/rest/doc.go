// Package rest is one request: its route, query, body and answer, and the OpenAPI document that follows from the
// routes.
//
// Place: the kernel that the rooms of the server share; it knows callers, and no handler.
//
// Promise: every JSON answer is {code, message, data} and every refusal {code, reason, message, hint, fields,
// retryable}; what a route does not read is refused; document and dispatch are made of the same row.
//
// Enemies: bodies that are too large, too slow or of another type; parameters that nobody knows; peers that take
// no byte.
package rest
