// Package migrant is `fermi import`: jobs of other schedulers become manifests of training tasks.
//
// Place: layer 5, beside cli; it reads files and talks to no server. Promise: every line of a job is in the manifest, or is named with the
// reason why it is not; what comes out is a manifest that the server takes. Enemies: a wish that is dropped in silence, a word that means something
// else here.
package migrant
