// Command mutate plants bugs in the planner one at a time and asks the properties of sched/safety and of control/placement
// to find each, and the tests of two rules of sched what worlds made by chance seldom come to.
//
// Place: beside the house. Promise: the tree is not touched (a planted bug is an overlay of the
// build), a bug that no longer applies or does not compile is a failure, and so is one that is not
// found within a minute.
package main
