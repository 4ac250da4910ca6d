// Command sbom writes what a binary of Fermi is made of, as CycloneDX JSON.
//
// Place: layer 6, a tool of the build (`make sbom`). Promise: every module that the linker put into the binary, the
// Go library, and every package of the console's lock file is in it, with version and hash; the same inputs give the
// same bytes. Enemies: a list that is kept by hand, a module that the list forgot.
package main
