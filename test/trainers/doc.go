// Package trainers runs ordinary scripts with Transformers, Lightning and Accelerate (scripts/) as tasks of an ordinary member, through a
// real server and the shipped binary, and kills their ranks at random moments.
//
// Place: test only. Promise: with instant saves at most three steps are made again after a kill and the weights at the end are those of
// the run that nobody disturbed; with a folder alone every start goes on from the newest whole checkpoint in it. A library that is not
// installed is skipped as "not verified". scripts/trainers.sh installs them and says where by FERMI_TRAINERS; without that nothing
// runs; FERMI_ONLY names the trials to do, FERMI_PART=3/12 is the fourth of twelve parts of them. Enemies: a script that was changed to please the platform.
package trainers
