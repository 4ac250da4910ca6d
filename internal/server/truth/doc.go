// Package truth is the store as all rooms of the server use it.
//
// Place: between the rooms of the server and the port store.
//
// Promise: whoever was answered finds what was made, on this server at once and on others after one more look.
//
// Enemies: a cache that is behind; many who look for what is not there.
package truth
