// Package ha runs three servers on a three-member etcd with mutual TLS, each in a network namespace of
// its own, and hurts them: leaders killed, paused, cut off; followers and etcd members too.
//
// Promise, for every seed: no acknowledged task is lost, none is started twice, no device is given out
// twice, no running process is touched; the API is back within three seconds; launchers re-attach to any
// server; every server shows the same log; fresh reads are linearizable. It needs root and `ip`.
// FERMI_HA_ROUNDS sets how often each fault comes (default 1), FERMI_HA_SEED the seed.
package ha
