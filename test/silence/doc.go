// Package silence freezes, kills and cuts off replicas of real trainings, run by the shipped binary, and holds the platform to what it
// promises then.
//
// Promise, for every seed: a replica that says nothing is found within 15 s when its gang stands still; the others step again within
// 45 s, and within 15 s where a spare or a peer's copy waits; no device ever has two holders; a server that was paused or killed, or a
// machine that is busy, makes nobody lost. Who was cut off, alive, and is joined again commits nothing. Services and environments on
// silent nodes are judged too: the one is replaced, the other waits for its home.
//
// FERMI_SILENCE is how many drills there are (2 without it), FERMI_SILENCE_SEED the seed, FERMI_SILENCE_FROM the number of the first,
// FERMI_SILENCE_FOR after how many seconds none is begun any more, FERMI_SLOWER how much more time a loaded machine gets. Each process
// has servers, folders, ports and networks of its own: test/far.sh runs many side by side, also where this tree is not.
package silence
