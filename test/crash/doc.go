// Package crash kills, pauses and restarts real servers and launchers at random moments while real
// tasks run, and checks against a journal written by the tasks themselves.
//
// Promise, for every seed: no acknowledged task is lost, none is started twice, no running process
// is touched. FERMI_CRASH_ROUNDS sets how many rounds (default 3), FERMI_CRASH_SEED the seed;
// with FERMI_TEST_POSTGRES the history is there.
package crash
