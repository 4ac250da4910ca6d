// Package recovery kills ranks of a real training, run by the shipped binary over several launchers,
// at random steps, and checks that the run which goes on is bit for bit the run that was never
// interrupted.
//
// Promise, for every seed: the same weights and the same curve, in the same attempt; without its
// server a training misses no step. FERMI_RECOVERY_ROUNDS sets how many kills (default 4),
// FERMI_RECOVERY_SEED the seed.
package recovery
