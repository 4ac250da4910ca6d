// Package upgrade starts an older release on a data folder, fills the folder with everything a
// cluster has, and lets the program of this tree take it over.
//
// Place: test only; the shipped binaries, as root. Promise, for every release of releases.txt: what
// runs goes on untouched, what waits starts when there is room, nothing that was kept is lost or
// changed, and who could do something can do it still. A release that was published is added to the
// list and never taken from it.
//
// Enemies: a field that is renamed, a record that is read more strictly, a default that changes what
// was allowed; an older program on a folder that it would harm.
//
// Older programs are built from their commits into .cache/upgrade, once; a clone must have the
// commits. They are driven by their own command line, and their manifests are text: types of this
// tree would say what the older one can't know. FERMI_UPGRADE=sample is one way of ending (kill -9)
// of the newest release.
package upgrade
