// Package access says who may do what: callers, the table of rules, and what of the objects a caller may see and
// change.
//
// Place: below the routes of the server, over truth.
//
// Promise: a route without a rule is refused to everybody; what one may not see does not exist; a token never has
// more than its user.
//
// Enemies: names that belong to others; tokens of tasks and tokens with a scope; answers that say whether
// something exists.
package access
