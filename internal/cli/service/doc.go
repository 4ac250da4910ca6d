// Package service has the commands of inference services, and a talk with one.
//
// Place: layer 5, below cli, of whose commands these are some. Promise: as of cli; a change that meets another one is made again.
// Enemies: a wait that never says what it waits for.
package service
