// Package shmtest writes slots as ranks do, for the tests of who reads them.
//
// Place: beside internal/launch/shm; only tests import it.
// Promise: what it writes is what the Python SDK writes, byte by byte.
// Enemies: tests that each have their own idea of a slot.
package shmtest
