// Package kubetest runs a real API server of Kubernetes for tests, and a small kubelet whose pods are processes of this machine.
//
// Place: layer 3, for tests. Promise: what is built by test/kube/build.sh is started on loopback, once for a test binary, and ended with it;
// permissions are real, and Fermi has those of deploy/kubernetes/rbac.yaml and no others. Enemies: a test that is content with less than the
// real server says.
package kubetest
