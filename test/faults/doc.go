// Package faults hurts real trainings, run by the shipped binary, in many ways, and checks that the
// guilty rank and what is done about it are right.
//
// Place: beside the house. Promise, for every seed: the guilty rank, its cause and the action are named in at
// least 95 % of the faults, a task that can go on goes on, and nothing happens to a healthy training beside it. The faults are
// those of Debian's PyTorch (scripts/patient.py), at least two thirds of them; what only a card can do is printed by a shell, and
// named so in the table at the end. Where connections are cut nobody is guilty, so only cause and action count.
// Beside it: each kind of `fermi train fault` and the look at a rank, on the sample and on PyTorch, and bad input.
// FERMI_FAULTS sets how many (make e2e-faults: 200), FERMI_FAULTS_SEED the seed.
package faults
