// Package ignore decides which files of a folder stay at home when it is sent to a server.
//
// Place: layer 5, a part of the command line.
// Promise: .fermiignore and .gitignore mean what they mean to Git; .git never travels, and neither do folders that tools make,
// unless a rule puts them back in.
// Enemies: a rule that matches less than Git's would, so that secrets and data travel.
package ignore
