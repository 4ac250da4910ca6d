// Package workbench tries development environments with the shipped program: as ordinary members of projects, on a node with limits.
//
// Place: test only. Promise: files, shells and walls are looked at from outside, through the doors that people use. Enemies: a shell that
// another user gets, a home that is lost, a terminal that ends with the server.
package workbench
