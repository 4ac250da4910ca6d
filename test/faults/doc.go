// Package faults hurts real trainings, run by the shipped binary, in many ways, and checks that the
// guilty rank and what is done about it are right.
//
// Place: beside the house. Promise, for every seed: the guilty rank, its cause and the action are named in at
// least 95 % of the faults, and a task that can go on goes on. It prints a table of what was taken for what.
// Beside it: each kind of `fermi train fault` and the look at a rank, on the sample and on PyTorch, and bad input.
// FERMI_FAULTS sets how many (make e2e-faults: 200), FERMI_FAULTS_SEED the seed.
package faults
