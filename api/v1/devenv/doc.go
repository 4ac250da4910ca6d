// Package devenv is the kind DevEnvironment: a machine of one's own to work on, with a home folder that stays.
//
// Place: layer 1, over the vocabulary. It is a workload of one replica: placed, queued, explained and charged like any other.
// Promise: users write spec, its controller writes status; a home belongs to one environment and is deleted with it alone.
// Enemies: a field that two people write, a limit that is only in words.
package devenv
