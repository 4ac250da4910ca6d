// Package disk fills, breaks and damages the disk of real servers, and sets their clocks wrong.
//
// Promise, for every seed: what is wrong is named or harmless; nothing acknowledged is lost or delivered wrong; stop, delete
// and cordon always work. Small disks are file systems in memory, with few bytes or few names; I/O errors come from a file
// system on a loop device that is shut down beneath the server, as the kernel does when a disk fails; the wall clocks of
// running servers and launchers are set while their other clocks go on. FERMI_DAMAGES is how many flips and cuts of a data folder,
// and as many of a backup, there are (500; 12 without the suite's target), FERMI_DISK_SEED their seed, FERMI_DAMAGES_FROM the
// number of the first: a long run can be made in parts.
package disk
