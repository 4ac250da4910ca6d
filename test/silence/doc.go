// Package silence freezes, kills and cuts off replicas of real trainings, run by the shipped binary, and holds the platform to what it
// promises then.
//
// Promise, for every seed: a replica that says nothing is found within 15 s when its gang stands still; the others step again within
// 45 s, and within 15 s where a spare or a peer's copy waits; no device ever has two holders; a server that was paused or killed, or a
// machine that is busy, makes nobody lost. FERMI_SILENCE is how many drills there are (2 without it), FERMI_SILENCE_SEED the seed.
package silence
