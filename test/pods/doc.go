// Package pods runs Fermi with a Kubernetes cluster as a zone, from the outside: a real API server, real permissions, the shipped binary.
//
// Place: tests. Promise: a task that runs on hosts runs as pods, and what happens to the pods reaches who asked in words. Enemies: a cluster that is
// less real than it could be.
package pods
