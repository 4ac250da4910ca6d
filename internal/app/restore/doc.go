// Package restore makes a data folder of a backup, and knows what was wished for it then.
//
// Place: layer 6, below the assembly, which asks it where history is and what a restored folder's first leader has to do.
// Promise: a folder appears whole, or not at all; every byte of the backup was verified before. What becomes of unfinished
// work was asked, and stands in the folder until it was done; which secret.key opens the secrets is known by its fingerprint.
// Enemies: a damaged backup, a key of another folder, tasks that start twice because their old server still runs.
package restore
