// Package tenant has the kinds that people and their work belong to: projects, users, tokens, secrets, and what a
// project may keep.
//
// Place: rows of hooks for objects, over door.
//
// Promise: an admin is always left; a secret is never shown, and a token once; nothing goes that others refer to.
//
// Enemies: two admins who remove each other; values of secrets in answers, logs and the audit; projects that keep
// too much.
package tenant
