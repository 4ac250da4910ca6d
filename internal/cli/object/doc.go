// Package object has the commands that work with every kind of object: apply, get, describe, delete, events and why,
// with a table for each kind.
//
// Place: layer 5, on call and show. Promise: a manifest with a mistake changes nothing, and says file and line; lists
// have the same columns everywhere. Enemies: an object that somebody else changed meanwhile.
package object
