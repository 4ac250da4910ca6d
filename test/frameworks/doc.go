// Package frameworks runs each framework's recipe for real: two replicas with two processes each and
// an all-reduce whose result is checked, through a real server and the shipped binary.
//
// Place: test only. Promise: a framework that is not installed is skipped as "not verified" with the
// reason, never counted as passed. scripts/frameworks.sh installs them and says where by
// FERMI_FRAMEWORKS; without that nothing runs.
package frameworks
