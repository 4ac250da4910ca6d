// Package tenant has the commands about who may do what: projects, users, tokens, secrets and sessions.
//
// Place: layer 5, on object. Promise: a secret is never an argument and is shown once. Enemies: two people who change
// one project at a time.
package tenant
