// Package crash kills, pauses and restarts real servers and launchers at random moments while real
// tasks, environments and builds of images run, and checks against a journal written by these themselves, and the registry.
//
// Promise, for every seed: no acknowledged task is lost, none is started twice, no running process
// is touched. FERMI_CRASH_ROUNDS sets how many rounds (default 3), FERMI_CRASH_SEED the seed;
// with FERMI_TEST_POSTGRES the history is there. Builds need root, and buildah (make e2e-crash).
package crash
