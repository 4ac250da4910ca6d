// Package environment is what development environments have of their own at the door: the table of their signals, and what a user and a project
// may have of them.
//
// Place: a room of the server, over objects; kinds of work ask Admit (internal/server/work). The table comes from the launcher, through the
// leader: none of it is written down.
// Promise: who may see an environment sees its table; a refusal names the bound, and what uses it. Enemies: two that count the same room at
// once, an environment that was made before a bound.
package environment
